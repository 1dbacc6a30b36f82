"""How figures are written: the median of the repeats, with the least and the most in brackets.

A repeat without a value, such as a latency where nothing was committed, is said and in no median.
"""

from __future__ import annotations

from collections.abc import Sequence

import laws_figures

from published.record import Form


def one(value: float, form: Form) -> str:
    """Write one value."""
    match form:
        case Form.COUNT:
            return f"{value:,.0f}"
        case Form.PERCENT:
            return f"{100 * value:.0f} %" if value >= 0.1 or value == 0 else f"{100 * value:.2f} %"
        case Form.TIMES:
            return times(value)
        case Form.MILLISECONDS:
            return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"
        case Form.SECONDS:
            return f"{value:.2f} s"
        case Form.NUMBER:
            return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def times(value: float) -> str:
    """Write a ratio. One that would be rounded to nothing is said to be under the least that is shown."""
    if value < 0.005:
        return "under 0.01x" if value > 0 else "0x"
    return f"{value:.0f}x" if value >= 10 else f"{value:.2f}x"


def spread(values: Sequence[float | None], form: Form) -> str:
    """Write the median, of several the least and the most, and how many repeats have no value."""
    return laws_figures.spread(values, lambda value: one(value, form))
