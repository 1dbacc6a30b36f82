"""Tell whether a value is the original, ours or foreign; every write and every restore asks this first."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class Whose(StrEnum):
    """Who set a value last."""

    ORIGINAL = "original"  # the value is as it was found
    OURS = "ours"
    FOREIGN = "foreign"  # somebody else set it since


def whose(value: int, original: int, ours: Collection[int]) -> Whose:
    """Say whose a value is. ``ours`` are all values that may be in force because we wrote them."""
    if value == original:
        return Whose.ORIGINAL
    return Whose.OURS if value in ours else Whose.FOREIGN
