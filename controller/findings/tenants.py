"""Channels that share a host, with numbers that somebody has stated for them: which has what it is owed, which not."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from msgspec import Struct

from qioi.controller.findings.diagnoses import see
from qioi.controller.laws.need import is_active, is_below, shortfall
from qioi.controller.laws.thresholds import AUTO, Threshold
from qioi.controller.period import Period
from qioi.model import Component

#: How much less of its T a channel does, as a part of T, than one that is worse off than that.
WORSE = 0.1


class Tenants(Struct, frozen=True):
    """By channel, what it lacks as a part of its T, at most 0 where it has its T; and those known to do less.

    Channels of which that is not known are missing.
    """

    short: Mapping[str, float]
    below: frozenset[str]

    def have_theirs(self, channels: Iterable[str]) -> bool:
        """Whether all of these channels are known to have what they are owed."""
        return all(self.short.get(name, 1.0) <= 0 for name in channels)

    def is_rival(self, one: Component, channels: Iterable[str]) -> bool:
        """Whether one has what it is owed in all of its channels, of which none is among these."""
        return bool(one.channels) and self.have_theirs(one.channels) and is_apart(one, channels)

    def is_better_off(self, one: Component, channels: Iterable[str]) -> bool:
        """Whether one lacks far less, in all of its channels, than these do, of which it serves none."""
        if not one.channels or not is_apart(one, channels):
            return False
        lacks = max(self.short[name] for name in channels if name in self.below)
        return all(self.short.get(name, 1.0) + WORSE <= lacks for name in one.channels)


def tenants_of(period: Period, presumed: Container[str]) -> Tenants:
    """Look at all channels; those in ``presumed`` make no commits, but are taken to be sent to."""
    seen = {name: see(period, name, presumed) for name, one in period.owed.items() if is_stated(one)}
    short = {name: lacks for name, one in seen.items() if (lacks := shortfall(one)) is not None}
    return Tenants(short, frozenset(name for name, one in seen.items() if is_active(one) and is_below(one)))


def is_stated(owed: Threshold) -> bool:
    """Whether somebody has said what a channel is owed."""
    return bool(owed.value) and owed.source != AUTO


def is_apart(one: Component, channels: Iterable[str]) -> bool:
    """Whether a component serves none of these channels."""
    return set(one.channels).isdisjoint(channels)
