"""Raft leaders of every channel: what orderers log about them, and the floors that follow from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from qioi.controller.adaptive import Tuning, has_room
from qioi.controller.law import HostLoad, Seen
from qioi.controller.leadership import Leadership
from qioi.serving import Serving
from qioi.snapshot import ComponentState
from qioi.types import Component, LeaderChange, Role

log = logging.getLogger("qioi")

TUNING = Tuning()


class Leaders:
    """All channels'."""

    def __init__(self, rest: Callable[[str, int], int]) -> None:
        """Begin; ``rest`` gives a channel's default for a component that was found with a share, both in v1 units."""
        self._rest = rest
        self._known: dict[str, Leadership] = {}
        self._serving = Serving({Role.ORDERER})

    def step(
        self,
        now: float,
        channels: Iterable[str],
        components: Collection[Component],
        changes: Iterable[LeaderChange],
        host: HostLoad | None,
        states: Mapping[str, ComponentState],
    ) -> dict[str, Leadership]:
        """Take one period in; ``states`` are the components' from the period before."""
        losses = [one for one in changes if one.old != 0]
        room = has_room(Seen(now, host=host), TUNING)
        after = {}
        for channel in channels:
            its = self._serving.names(channel, components)
            lost = [one for one in losses if one.orderer in its and one.channel in (None, channel)]
            before = self._known.get(channel, Leadership())
            ratio = max((self._in_defaults(channel, states.get(name)) for name in its), default=1.0)
            after[channel] = before.step(now, bool(lost), room, ratio)
            tell(channel, lost, before, after[channel])
        self._known = after
        return after

    def _in_defaults(self, channel: str, state: ComponentState | None) -> float:
        """Give a component's share in force in units of the channel's default."""
        return state.share / self._rest(channel, state.original) if state and state.share and state.original else 1.0


def tell(channel: str, lost: list[LeaderChange], before: Leadership, after: Leadership) -> None:
    """Log what has changed."""
    if lost and after.losses == before.losses and after.lost_at == before.lost_at:
        log.info("channel %s: Raft leader changed: %d -> %d, with room on the host", channel, lost[0].old, lost[0].new)
    elif after.losses > before.losses:
        log.warning(
            "channel %s: Raft leader changed: %d -> %d (%s) beside interference: its orderers keep at least %.1f times "
            "their default until that ends", channel, lost[0].old, lost[0].new, lost[0].orderer, after.factor
        )  # fmt: skip
    elif before.losses and not after.losses:
        log.info("channel %s: the interference has ended: no floor under its orderers any more", channel)
