"""A loop that stands still: the daemon answers, and what it says is of the last period that has ended."""

from __future__ import annotations

#: A loop that ends no period for two periods and so many seconds more hangs; the unit's watchdog waits as long.
STALLED = 30.0


def stalled(age: float, period: float) -> str | None:
    """Say that no period has ended for ``age`` seconds; ``None`` while that is usual."""
    return f"no period has ended for {age:.0f} s" if age > STALLED + 2 * period else None


def of_then(age: float, period: float) -> str | None:
    """Say it before what is shown of that period."""
    said = stalled(age, period)
    return said and f"{said}: what follows is of then"
