"""Channels that share a host, with numbers that somebody has stated for them: which has what it is owed, which not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from qioi.controller.findings.channels import SeenChannels
from qioi.controller.laws.need import is_active, is_below, shortfall
from qioi.controller.laws.thresholds import AUTO, Threshold

#: A channel is better off than another one where it lacks at least this much less, as parts of their Ts.
LESS = 0.1


class Tenants(Struct, frozen=True):
    """By channel, what it lacks as a part of its T, at most 0 where it has its T; and those known to do less.

    Channels of which that is not known are missing. ``silent`` are those of ``short`` that nobody sends to. ``stated``
    are all channels for which somebody has said what they are owed.
    """

    short: Mapping[str, float]
    below: frozenset[str]
    silent: frozenset[str] = frozenset()
    stated: frozenset[str] = frozenset()

    def worst(self, channels: Iterable[str]) -> float:
        """Give what that one of these channels lacks which lacks most; all of its T where that is not known.

        A silent channel lacks nothing beside one that is sent to.
        """
        sent_to = [name for name in channels if name not in self.silent] or channels
        return max((self.short.get(name, 1.0) for name in sent_to), default=1.0)

    def have_theirs(self, channels: Iterable[str]) -> bool:
        """Whether these are channels, and all known to have what they are owed."""
        return self.worst(channels) <= 0


def tenants_of(owed: Mapping[str, Threshold], channels: SeenChannels) -> Tenants:
    """Find the tenants among all channels."""
    seen = {name: channels[name] for name, one in owed.items() if is_stated(one)}
    short = {name: lacks for name, one in seen.items() if (lacks := shortfall(one)) is not None}
    active = {name for name, one in seen.items() if is_active(one)}
    below = frozenset(name for name in active if is_below(seen[name]))
    return Tenants(short, below, frozenset(short.keys() - active), frozenset(seen))


def is_stated(owed: Threshold) -> bool:
    """Whether somebody has said what a channel is owed."""
    return bool(owed.value) and owed.source != AUTO
