"""Whose a value is: the one question before anything is written or put back, for every lever and record alike."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class Whose(StrEnum):
    """Who has last set a value."""

    ORIGINAL = "original"  # it is as it was found
    OURS = "ours"
    FOREIGN = "foreign"  # somebody else has set it since


def whose(value: int, original: int, ours: Collection[int]) -> Whose:
    """Say whose a value is. ``ours`` are all that may be in force by our doing."""
    if value == original:
        return Whose.ORIGINAL
    return Whose.OURS if value in ours else Whose.FOREIGN
