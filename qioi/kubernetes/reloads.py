"""What to do about groups that systemd, which could not be told of shares, puts back to their originals at a reload."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

#: Seconds for which a group is left alone when it is put back for the second time; twice as long at each further one.
#: (An upgrade of packages reloads systemd once for each that has a service.)
PAUSE = 10.0
#: Whoever puts a group back this often is not taken for systemd any more.
MOST = 6
#: Seconds without a reload after which all is as if there had been none.
CALM = 600.0


@dataclass(slots=True)
class Reset:
    """What happened to one group: how often it was put back, when last, and when it may be raised again."""

    times: int
    at: float
    due: float
    waits: bool = True


class Reloads:
    """Tells when a group that was put back may be raised again: at once, later, or never, so that no one is fought."""

    def __init__(self) -> None:
        self._resets: dict[str, Reset] = {}

    def keep_only(self, groups: Collection[str]) -> None:
        """Forget all other groups."""
        self._resets = {group: one for group, one in self._resets.items() if group in groups}

    def is_over(self, group: str, now: float) -> bool:
        """Whether a group that is back at its original, by somebody else, may be raised again. To be asked each period.

        ``now`` is in seconds, of a clock that never goes back.
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
