"""What every channel does and what it is owed, looked at once a period for all findings."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from functools import cache
from typing import TypeAlias

from qioi.controller.findings.bottleneck import suffers
from qioi.controller.laws.law import Seen
from qioi.controller.laws.need import is_active
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, HostLoad

#: What was seen of every channel that is owed anything, or may be, by name.
SeenChannels: TypeAlias = Mapping[str, Seen]


def look_at_all(period: Period, presumed: Container[str] = ()) -> SeenChannels:
    """Look at every channel with a policy; those in ``presumed`` make no commits, but are taken to be sent to."""
    channels = period.channels
    return {
        name: look(period.now, channels.get(name), owed, period.host, name in presumed)
        for name, owed in period.owed.items()
    }


def look(
    now: float, reading: ChannelReading | None, owed: Threshold, host: HostLoad | None = None, presumed: bool = False
) -> Seen:
    """Put together what a channel does and what it is owed."""
    throughput, age = (reading.throughput, reading.silence) if reading else (None, None)
    return Seen(now, throughput, owed.value, age, host=host, presumed=presumed)


def sent_to(channels: SeenChannels) -> frozenset[str]:
    """Name the channels that somebody sends to."""
    return frozenset(name for name, one in channels.items() if is_active(one))


def idle_components(components: Iterable[Component], channels: Set[str]) -> frozenset[str]:
    """Name the components that serve none of the channels that are sent to; one without channels serves all."""
    idle = cache(lambda its: channels.isdisjoint(its or channels))  # many have their channels in common
    return frozenset(one.name for one in components if idle(one.channels))


def anybody_suffers(now: float, channels: Mapping[str, ChannelReading], owed: Mapping[str, Threshold]) -> bool:
    """Whether a channel does less than it should, as far as channels tell."""
    return any(suffers(look(now, channels.get(name), one)) for name, one in owed.items())
