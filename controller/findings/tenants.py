"""Channels that share a host, with numbers that somebody has stated for them: which has what it is owed, which not."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from msgspec import Struct

from qioi.controller.findings.diagnoses import see
from qioi.controller.laws.need import is_active, is_below, shortfall
from qioi.controller.laws.thresholds import AUTO, Threshold
from qioi.controller.period import Period

#: A channel is better off than another one where it lacks at least this much less, as parts of their Ts.
LESS = 0.1


class Tenants(Struct, frozen=True):
    """By channel, what it lacks as a part of its T, at most 0 where it has its T; and those known to do less.

    Channels of which that is not known are missing.
    """

    short: Mapping[str, float]
    below: frozenset[str]

    def have_theirs(self, channels: Iterable[str]) -> bool:
        """Whether all of these channels are known to have what they are owed."""
        return all(self.short.get(name, 1.0) <= 0 for name in channels)

    def are_rivals(self, theirs: Iterable[str], mine: Iterable[str]) -> bool:
        """Whether others have what they are owed in all of their channels, of which none is one of mine."""
        return bool(theirs) and self.have_theirs(theirs) and set(theirs).isdisjoint(mine)

    def are_better_off(self, theirs: Iterable[str], mine: Iterable[str]) -> bool:
        """Whether others lack far less, in all of their channels, than mine do, of which they serve none."""
        if not theirs or not set(theirs).isdisjoint(mine):
            return False
        lacks = max((self.short[name] for name in mine if name in self.below), default=0.0)
        return all(self.short.get(name, 1.0) + LESS <= lacks for name in theirs)


def tenants_of(period: Period, presumed: Container[str]) -> Tenants:
    """Look at all channels; those in ``presumed`` make no commits, but are taken to be sent to."""
    seen = {name: see(period, name, presumed) for name, one in period.owed.items() if is_stated(one)}
    short = {name: lacks for name, one in seen.items() if (lacks := shortfall(one)) is not None}
    return Tenants(short, frozenset(name for name, one in seen.items() if is_active(one) and is_below(one)))


def is_stated(owed: Threshold) -> bool:
    """Whether somebody has said what a channel is owed."""
    return bool(owed.value) and owed.source != AUTO
