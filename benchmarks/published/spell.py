"""How figures are written: the median of the repeats, with the least and the most in brackets where they differ.

The unit stands once. A repeat without a value, such as a latency where nothing was committed, is said and in no median.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from published.record import Form

#: What stands behind a number.
_UNITS = {Form.PERCENT: " %", Form.TIMES: "x", Form.MILLISECONDS: " ms", Form.SECONDS: " s"}


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
    """Write the median, the least and the most where these differ as written, and how many repeats have no value."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    text = one(statistics.median(known), form)
    least, most = (one(end, form).removesuffix(_UNITS.get(form, "")) for end in (min(known), max(known)))
    if least != most:
        text += f" ({least} .. {most})"
    missing = len(values) - len(known)
    return f"{text}, - in {missing} of {len(values)}" if missing else text
