"""Steps of a tenth, by which shares move against tenants: up while a channel is below its T, and back.

A group's file takes whole numbers, so that one step leaves a small weight what it is. What was asked for then goes on,
by a tenth in every period, until the weight is another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: What a share is multiplied or divided by in a period: a larger step would take the tenant below its T.
STEP = 1.1
#: What a weight of 1 needs to become 2. More in one period is no step.
MOST = 2.0
#: Seconds without a step, of a moment of room or of foreign work, after which one begins anew.
KEPT = 10.0


class Asked(NamedTuple):
    """When a step was asked for, the share that was in force, and the one asked for instead."""

    at: float
    force: int
    share: float


class Steps:
    """Remembers by name what was asked for last."""

    def __init__(self) -> None:
        self._now = 0.0
        self._asked: dict[str, Asked] = {}

    def begin(self, now: float) -> None:
        """Begin a period."""
        self._now = now
        self._asked = {name: asked for name, asked in self._asked.items() if now - asked.at <= KEPT}

    def up(self, name: str, force: int, part: float = 1.0) -> int:
        """Give a step more than the share in force, or than what was asked for where that has not moved it.

        ``part`` of a step is 0..1.
        """
        step = 1.0 + part * (STEP - 1.0)
        return self._ask(name, force, min(max(self._begun(name, force), force) * step, force * MOST))

    def down(self, name: str, force: int) -> int:
        """Give a step less than the share in force, or than what was asked for where that has not moved it."""
        return self._ask(name, force, max(min(self._begun(name, force), force) / STEP, force / MOST))

    def answer(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Tell what some wanted to have: of one who did not want to go all the way up, the next step begins anew."""
        if self._asked:
            for name, share in wanted:
                asked = self._asked.get(name)
                if asked is not None and asked.force < asked.share and share < round(asked.share):
                    del self._asked[name]

    def _begun(self, name: str, force: int) -> float:
        """Give the share from which a step goes on."""
        asked = self._asked.get(name)
        return asked.share if asked is not None and asked.force == force else force

    def _ask(self, name: str, force: int, share: float) -> int:
        self._asked[name] = Asked(self._now, force, share)
        return round(share)
