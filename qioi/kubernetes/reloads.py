"""Decide when to raise groups again that a reload of systemd, which could not be told of shares, has reset."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

#: Seconds for which a group is left alone after its second reset; each further reset doubles them. (An upgrade of
#: packages reloads systemd once for each package that has a service.)
PAUSE = 10.0
#: A group that is reset more often than this is taken as foreign, not as reset by systemd.
MOST = 6
#: Seconds without a reset after which earlier resets are forgotten.
CALM = 600.0


@dataclass(slots=True)
class Reset:
    """The resets of one group: how many, when the last one was, and when the group may be raised again."""

    times: int
    at: float
    due: float
    waits: bool = True


class Reloads:
    """Tells when a group that was reset may be raised again: at once, later, or never, so as not to fight others."""

    def __init__(self) -> None:
        self._resets: dict[str, Reset] = {}

    def keep_only(self, groups: Collection[str]) -> None:
        """Forget all other groups."""
        self._resets = {group: one for group, one in self._resets.items() if group in groups}

    def is_over(self, group: str, now: float) -> bool:
        """Whether a group may be raised again that somebody else set to its original. Call it in each period.

        ``now`` is in seconds of a monotonic clock.
        """
        reset = self._resets.get(group)
        if reset is None or (not reset.waits and now - reset.at > CALM):
            reset = self._resets[group] = Reset(1, now, now)
        elif not reset.waits:
            times = reset.times + 1
            reset = self._resets[group] = Reset(times, now, now + PAUSE * 2 ** (times - 2))
        if reset.times > MOST or now < reset.due:
            return False
        reset.waits = False
        return True
