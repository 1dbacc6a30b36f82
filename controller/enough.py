"""What has been enough for each component, on the word of which channel, beside the neighbours that are still there.

It is known by names, so it outlives the component's laws: a container's restart, a reload, and, in a file
(qioi/daemon/known_shares.py), the daemon's own. It is knowledge, not a write: a component that is found at its default
is raised to it by a decision like any other, once the host is seen to be full.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from qioi.controller.laws.need import has_room, load_of
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import Component

#: Seconds after which a component that is no longer there is forgotten: it may restart meanwhile. Names of pods never
#: come again, so what is known would grow for ever.
GONE_AFTER = 600.0
#: Stands for all channels, where it is not known which of them had asked: in a file that has components alone.
ANY = ""

#: Factors on the share that a component was found with, by channel.
Factors = Mapping[str, float]
NOTHING: Factors = {}


class Enough:
    """By component and channel, the factor that the channel's law had asked for and that was in force."""

    def __init__(self, known: Mapping[str, Factors]) -> None:
        self.known = dict(known)
        #: When each component that is known was last there; one that was never seen, when it was first missed.
        self._there: dict[str, float] = {}
        #: Components that had CPUs of their own when they were last there. Whether these have room is not known later.
        self._pinned: set[str] = set()

    def step(
        self, period: Period, asked_shares: Callable[[str], Iterable[tuple[str, int]]], tried: Container[str]
    ) -> None:
        """Learn from the shares in force while the host is full; forget what is back while it has room.

        ``asked_shares`` gives what channels asked for a component in the period before, in v1 units. Components
        that are ``tried`` have been given less than what is enough.
        """
        self._forget_gone(period)
        heard = {name for name, one in period.channels.items() if one.age is not None}
        for one in period.components:
            force, host = period.forces.get(one.name), load_of(period.host, one.name)
            if force is None:
                continue
            if force.taken_up:  # the factor is on another original
                self.known.pop(one.name, None)
            if host is None or one.name in tried:
                continue
            if has_room(host):
                if force.share <= force.original:
                    self.known.pop(one.name, None)
            elif force.share > force.original and not force.foreign:
                asks, most, found = dict(asked_shares(one.name)), force.share, force.original
                learned = {
                    channel: (shares if shares < most else most) / found
                    for channel, shares in asks.items()
                    if shares > found and channel in heard
                }
                if learned:
                    before = self.known.get(one.name, NOTHING)
                    if ANY in before:
                        before = factors_of(asks, before)
                    self.known[one.name] = {**before, **learned}

    def _forget_gone(self, period: Period) -> None:
        """Forget components that are not there, at once where the host has room, on whose CPUs they ran."""
        there = {one.name for one in period.components}
        if period.host is not None:
            self._pinned = (self._pinned & self.known.keys() - there) | period.host.pinned.keys()
        now, room = period.now, has_room(period.host)
        self._there = {name: now if name in there else self._there.get(name, now) for name in self.known}
        self.known = {
            name: factors
            for name, factors in self.known.items()
            if name in there or now - self._there[name] < (0.0 if room and name not in self._pinned else GONE_AFTER)
        }

    def rename(self, names: Mapping[str, str]) -> None:
        """Go on with what is known of components under the names that they have now, by those that they had."""
        moved = {after: self.known[name] for name, after in names.items() if name in self.known}
        self.known = {name: factor for name, factor in self.known.items() if name not in names} | moved

    def begin(self, component: str, channel: str, channels: Iterable[str], force: InForce) -> float:
        """Give the share that a channel's new law goes on from where an earlier daemon, or another policy, has raised.

        Who of the ``channels`` that it serves had asked for the most goes on from the share in force, and the others
        from their part of it. Where a channel that it serves no more had asked for more, none goes on from more than
        its own factor. All go on from the share in force where none of them is known to have asked.
        """
        known = self.known.get(component, NOTHING)
        factors = factors_of(channels, known)
        if not factors or force.share <= force.original:
            return force.share
        factor, most = factors.get(channel, 0.0), max(factors.values())
        share = force.share * factor / most
        if most < max(known.values()):
            share = min(share, factor * force.original)
        return max(force.original, share)

    def factors(self, period: Period, component: Component, channels: Iterable[str]) -> Factors:
        """Give what has been enough, by channel, while the host is full; who lacks in it had not asked for any."""
        host, factors = load_of(period.host, component.name), self.known.get(component.name)
        if factors is None or host is None or has_room(host):
            return NOTHING
        return factors_of(channels, factors)


def factors_of(channels: Iterable[str], factors: Factors) -> Factors:
    """Give the factors of these channels."""
    if ANY in factors:
        return dict.fromkeys(channels, factors[ANY])
    return {channel: factors[channel] for channel in channels if channel in factors}
