"""Names in a line for people: a host may have a thousand components, and a line has room for a few."""

from __future__ import annotations

from collections.abc import Iterable

#: Names in a line; of more than that the rest is counted.
FEW = 5


def few(names: Iterable[str], most: int = FEW) -> str:
    """Name some, in order, and say how many more there are; nothing where there is none."""
    known = sorted(set(names))
    if len(known) <= most + 1:  # "and 1 more" would be no shorter
        return ", ".join(known)
    return f"{', '.join(known[:most])} and {len(known) - most:,} more"


def counted(number: int, thing: str) -> str:
    """Spell how many there are of a thing."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def shortened(name: str, most: int) -> str:
    """Cut the middle out of a long name: that of a chaincode's container begins with its peer and ends with a hash."""
    if len(name) <= most:
        return name
    kept = max(2, most - 2)
    return f"{name[: (kept + 1) // 2]}..{name[len(name) - kept // 2 :]}"
