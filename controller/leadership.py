"""Raft leaders lost beside interference: the orderers' floor is raised until the interference ends.

An orderer that is starved for some 5 s (Fabric: election tick 10 of 500 ms) loses its leadership, and the channel
stands still until another one has it. A law that works by what it sees comes too late for that, and would try again as
soon as things look well. So once it has happened beside interference, the channel's orderers keep at least twice their
default, or what they had if that was more, and twice that after each further loss; until there is room again.
"""

from __future__ import annotations

from dataclasses import replace

from qioi.values import frozen

#: Several orderers log one change, and a loss and the election after it are two lines: one within so many seconds.
ONE_CHANGE = 3.0
#: A leader that is lost so many seconds after the host was full was starved while it was.
AFTER = 10.0
#: Seconds of room on the host after which the interference has ended.
ENDED = 3.0
#: What a loss multiplies by.
STEP = 2.0
#: No floor is more than this many times the default; the policy's ceiling bounds it too.
MOST = 16.0


@frozen
class Leadership:
    """One channel's, with all it remembers. ``factor`` is the floor in defaults; 1 is none of ours."""

    factor: float = 1.0
    losses: int = 0  # counted in this interference
    lost_at: float | None = None
    full_at: float | None = None
    room_since: float | None = None

    def step(self, now: float, lost: bool, room: bool, ratio: float) -> Leadership:
        """Take one period in. ``ratio`` is the largest share in force among the channel's orderers, in defaults."""
        room_since = (self.room_since if self.room_since is not None else now) if room else None
        after = replace(self, room_since=room_since, full_at=self.full_at if room else now)
        if lost and after.full_at is not None and now - after.full_at <= AFTER:
            if self.lost_at is None or now - self.lost_at > ONE_CHANGE:
                factor = min(MOST, max(STEP, ratio) if self.factor == 1.0 else STEP * self.factor)
                after = replace(after, factor=max(self.factor, factor), losses=self.losses + 1)
            return replace(after, lost_at=now)
        if room_since is not None and now - room_since >= ENDED and after.losses:
            return replace(after, factor=1.0, losses=0)
        return after
