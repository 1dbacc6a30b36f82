"""Raft leaders lost beside interference: the orderers' floor is raised until the interference ends.

An orderer that is starved for some 5 s (Fabric: election tick 10 of 500 ms) loses its leadership, and the channel
stands still until another one has it. A law that works by what it sees comes too late for that, and would try again as
soon as things look well. So once it has happened beside interference, the channel's orderers keep at least twice their
default, or what they had if that was more, and twice that after each further loss; until there is room again. Algorithm
1 of the paper knows no floor, so of its channels losses are counted alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.laws.need import room_for
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import LeaderChange, Role
from qioi.model.serving import Serving

#: Several orderers log one change, and a loss and the election after it are two lines: one within so many seconds.
ONE_CHANGE = 3.0
#: A leader that is lost so many seconds after the host was full was starved while it was.
AFTER = 10.0
#: Seconds of room on the orderers' CPUs after which the interference has ended.
ENDED = 3.0
#: What a loss multiplies by.
STEP = 2.0
#: No floor is more than this many times the default; the policy's ceiling bounds it too.
MOST = 16.0


class Leadership(Struct, frozen=True):
    """One channel's, with all it remembers. ``factor`` is the floor in defaults; 1 is none of ours."""

    factor: float = 1.0
    losses: int = 0  # counted in this interference
    lost_at: float | None = None
    full_at: float | None = None
    room_since: float | None = None

    def step(self, now: float, lost: bool, room: bool | None, ratio: float) -> Leadership:
        """Take one period in. ``ratio`` is the largest share in force among the channel's orderers, in defaults.

        It counts where a leader was ``lost``. ``room`` is ``None`` where nothing is known of the host.
        """
        room_since = (self.room_since if self.room_since is not None else now) if room else None
        after = replace(self, room_since=room_since, full_at=now if room is False else self.full_at)
        if lost and after.full_at is not None and now - after.full_at <= AFTER:
            if self.lost_at is None or now - self.lost_at > ONE_CHANGE:
                factor = min(MOST, max(STEP, ratio) if self.factor == 1.0 else STEP * self.factor)
                after = replace(after, factor=max(self.factor, factor), losses=self.losses + 1)
            return replace(after, lost_at=now)
        if room_since is not None and now - room_since >= ENDED and after.losses:
            return replace(after, factor=1.0, losses=0)
        return after


log = logging.getLogger("qioi")


class Leaders:
    """All channels'."""

    def __init__(self, rest: Callable[[str, int], int], is_literal: Callable[[str], bool]) -> None:
        """Begin; ``is_literal`` knows channels of Algorithm 1.

        ``rest`` gives a channel's default for a component that was found with a share, both in v1 units.
        """
        self._rest = rest
        self._is_literal = is_literal
        self._known: dict[str, Leadership] = {}
        self._serving = Serving({Role.ORDERER})

    def step(self, period: Period) -> dict[str, Leadership]:
        """Take one period in."""
        host, losses = period.host, [one for one in period.elections if one.old != 0]
        after = {}
        for channel in period.owed:
            its = self._serving.names(channel, period.components)
            lost = [one for one in losses if one.orderer in its and one.channel in (None, channel)]
            before = self._known.get(channel, Leadership())
            ratio = max(self._in_defaults(channel, period.forces.get(name)) for name in its) if lost else 1.0
            room = None if host is None else room_for(host, its)
            after[channel] = before.step(period.now, bool(lost), room, ratio)
            tell(channel, lost, self._shown(channel, before), self._shown(channel, after[channel]))
        self._known = after
        return {channel: self._shown(channel, one) for channel, one in after.items()}

    def _shown(self, channel: str, one: Leadership) -> Leadership:
        """Give a channel's without the floor that Algorithm 1 does not have; another law may follow at a reload."""
        return replace(one, factor=1.0) if one.losses and self._is_literal(channel) else one

    def _in_defaults(self, channel: str, force: InForce | None) -> float:
        """Give a component's share in force in units of the channel's default."""
        return force.share / self._rest(channel, force.original) if force is not None else 1.0


def tell(channel: str, lost: list[LeaderChange], before: Leadership, after: Leadership) -> None:
    """Log what has changed."""
    if lost and after.losses == before.losses and after.lost_at == before.lost_at:
        words = "channel %s: Raft leader changed: %d -> %d, with room on its orderers' CPUs"
        log.info(words, channel, lost[0].old, lost[0].new)
    elif after.losses > before.losses:
        keep = f"its orderers keep at least {after.factor:.1f} times their default until that ends"
        log.warning(
            "channel %s: Raft leader changed: %d -> %d (%s) beside interference: %s", channel, lost[0].old, lost[0].new,
            lost[0].orderer, keep if after.factor > 1 else "its law has no floor under its orderers' shares"
        )  # fmt: skip
    elif before.factor > 1 and not after.losses:
        log.info("channel %s: the interference has ended: the floor under its orderers is gone", channel)
