"""What has been enough for each component beside the neighbours that are still there.

It is known by the component's name, so it outlives the component's law: a container's restart, a reload, and, in a file
(qioi/daemon/known_shares.py), the daemon's own. It is knowledge, not a write: a component that is found at its default
is raised to it by a decision like any other, once the host is seen to be full.
"""

from __future__ import annotations

from collections.abc import Mapping

from qioi.controller.laws.need import has_room
from qioi.controller.period import Period
from qioi.model import Component, HostLoad

#: Seconds after which a component that is no longer there is forgotten: it may restart meanwhile. Names of pods never
#: come again, so what is known would grow for ever.
GONE_AFTER = 600.0


class Enough:
    """By component, the factor that its share in force had on the one that it was found with."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self.known = dict(known)
        #: When each component that is known was last there; one that was never seen, when it was first missed.
        self._there: dict[str, float] = {}
        #: Components that had CPUs of their own when they were last there. Whether these have room is not known later.
        self._pinned: set[str] = set()

    def step(self, period: Period) -> None:
        """Learn from the shares in force while the host is full; forget what is back while it has room."""
        self._forget_gone(period)
        heard = {name for name, one in period.channels.items() if one.age is not None}
        for one in period.components:
            force, host = period.forces.get(one.name), load_of(period.host, one)
            if force is None:
                continue
            if force.taken_up:  # the factor is on another original
                self.known.pop(one.name, None)
            if host is None:
                continue
            if has_room(host):
                if force.share <= force.original:
                    self.known.pop(one.name, None)
            elif force.share > force.original and not force.foreign and not heard.isdisjoint(one.channels or heard):
                self.known[one.name] = force.share / force.original

    def _forget_gone(self, period: Period) -> None:
        """Forget components that are not there, at once where the host has room, on whose CPUs they ran."""
        there = {one.name for one in period.components}
        if period.host is not None:
            self._pinned = (self._pinned & self.known.keys() - there) | period.host.pinned.keys()
        now, room = period.now, has_room(period.host)
        self._there = {name: now if name in there else self._there.get(name, now) for name in self.known}
        self.known = {
            name: factor
            for name, factor in self.known.items()
            if name in there or now - self._there[name] < (0.0 if room and name not in self._pinned else GONE_AFTER)
        }

    def rename(self, names: Mapping[str, str]) -> None:
        """Go on with what is known of components under the names that they have now, by those that they had."""
        moved = {after: self.known[name] for name, after in names.items() if name in self.known}
        self.known = {name: factor for name, factor in self.known.items() if name not in names} | moved

    def share(self, period: Period, component: Component) -> float | None:
        """Give the share that has been enough, while the host is full."""
        host, factor = load_of(period.host, component), self.known.get(component.name)
        if factor is None or host is None or has_room(host):
            return None
        return factor * period.forces[component.name].original


def load_of(host: HostLoad | None, component: Component) -> HostLoad | None:
    """Give the load of the CPUs that a component may run on, if it is known."""
    return host.of(component.name) if host is not None else None
