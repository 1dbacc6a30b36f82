"""Laws of components whose shares are on trial: they go on from where they stood, and not from what was tried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.need import has_room
from qioi.controller.laws.room import LastingRoom
from qioi.controller.period import Period
from qioi.model import MAX_SHARES

#: Shares that laws have come to, in v1 units, by channel.
Shares = Mapping[str, float]


class OnTrial:
    """What laws had come to before a trial gave their components less, by component and channel."""

    def __init__(self) -> None:
        self._before: dict[str, Shares] = {}
        self._room: defaultdict[str, LastingRoom] = defaultdict(LastingRoom)  # on the CPUs of each of these

    def __contains__(self, component: object) -> bool:
        """Whether the share in force in this period was given by a trial."""
        return component in self._before

    def step(
        self, period: Period, limits: Mapping[str, Limit], shares: Callable[[str], Shares]
    ) -> Mapping[str, Shares]:
        """Take one period's limits in; give what laws had come to of the components that may have it again.

        ``shares`` gives what a component's laws have come to. Where the neighbours are gone nobody needs it. A moment
        of room, which ends a trial, does not show that they are.
        """
        tried = {name for name, limit in limits.items() if gives_less(limit)}
        for name in tried - self._before.keys():
            self._before[name] = shares(name)
        full = {name for name in self._before if period.host is None or not has_room(period.host.of(name))}
        over = {name for name in self._before if self._room[name].step(period.now, name not in full)}
        untried = self._before.keys() - tried
        again = {name: self._before[name] for name in untried & full}
        for name in untried & (full | over):
            self.forget(name)
        return again

    def forget(self, component: str) -> None:
        """Drop what is known of a component that is gone or was recreated."""
        self._before.pop(component, None)
        self._room.pop(component, None)


def gives_less(limit: Limit) -> bool:
    """Whether it is of a trial of shares, or of one that has let go of them, and bounds anything."""
    return limit.reason in {Reason.TRIED, Reason.NO_EFFECT} and limit.most is not None and limit.most < MAX_SHARES
