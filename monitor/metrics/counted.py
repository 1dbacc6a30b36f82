"""Counters on pages -> throughput per channel, where an operator has said what counts (a database's commits).

Each component's rate is taken between its own looks, so that an answer that comes late changes nothing. Each series
counts by itself. One that has fallen began anew: what it counted before stays counted. One that was missing for a while
adds what it has grown by since. The first value of one that is new adds nothing, as with Prometheus' ``rate``: it may
be years of counting. A component that does not answer keeps its last rate for a
while, because a node that waits for a CPU answers late and works on; after that it is away, and the others count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from qioi.model import ChannelReading
from qioi.model.counting import Count
from qioi.monitor.metrics.exposition import MOST_LINES, Series

#: Seconds that a rate covers.
WINDOW = 6.0
#: Seconds after its last page for which a component's rate stands.
ABSENT = 18.0


@dataclass(slots=True)
class _Counter:
    """One component's counter: looks (time, a count), and the last value of each series, also of one that is missing.

    The count begins at what the channel had done by then, and grows as the counter does: nodes that are replaced one by
    one would otherwise count from 0 until they have passed those before them (``combine: max``).
    """

    last: dict[int, float]
    looks: deque[tuple[float, float]] = field(default_factory=deque)

    @property
    def count(self) -> float:
        return self.looks[-1][1]

    @property
    def rate(self) -> float | None:
        """Per second between the first look that is kept and the last."""
        (begun, before), (ended, after) = self.looks[0], self.looks[-1]
        return (after - before) / (ended - begun) if ended > begun else None

    def look(self, series: Series, now: float) -> float:
        """Take in what a page shows; give by how much it has grown."""
        grown = 0.0
        for labels, value in series.items():
            before = self.last.get(labels, value)
            grown += value - before if value >= before else value
        self.last.update(series)
        if len(self.last) > MOST_LINES:  # a page has no more: those that are missing make room
            self.last = dict(series)
        self.looks.append((now, self.count + grown))
        while len(self.looks) > 2 and self.looks[1][0] <= now - WINDOW:
            self.looks.popleft()
        return grown


@dataclass(slots=True)
class _Channel:
    begun: float
    counters: dict[str, _Counter] = field(default_factory=dict)
    moved: float | None = None
    total: float = 0.0


class CountedThroughput:
    """What counters say of the channels that have one. Times are monotonic, in seconds."""

    def __init__(self, counts: Mapping[str, Count]) -> None:
        self.counts = counts
        self._channels: dict[str, _Channel] = {}

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that any page has counted."""
        return tuple(self._channels)

    def heard(self, since: float) -> tuple[str, ...]:
        """Name the channels whose counter has grown since then."""
        return tuple(name for name, one in self._channels.items() if one.moved is not None and one.moved >= since)

    def observe(self, component: str, counts: Mapping[str, Series], now: float) -> None:
        """Take in the series of one component's counters, by channel."""
        for name, series in counts.items():
            channel = self._channels.setdefault(name, _Channel(now))
            counter = channel.counters.get(component)
            if counter is None:
                channel.counters[component] = _Counter(dict(series), deque([(now, channel.total)]))
                continue
            grown = counter.look(series, now)
            if grown > 0:
                channel.moved = now
                before, channel.total = channel.total, channel.total + grown
                if self.counts[name].combine == "max":
                    channel.total = max(before, *(one.count for one in channel.counters.values()))

    def forget(self, component: str) -> None:
        """Drop what a component has counted, once it is not watched."""
        for channel in self._channels.values():
            channel.counters.pop(component, None)

    def reading(self, name: str, now: float) -> ChannelReading:
        """Say what is known of a channel; without a whole window, or without any page, there is no throughput."""
        channel = self._channels.get(name)
        if channel is None:
            return ChannelReading(name, None, None, source="metrics")
        for component in [one for one, its in channel.counters.items() if now - its.looks[-1][0] > ABSENT]:
            del channel.counters[component]
        rates = [rate for its in channel.counters.values() if (rate := its.rate) is not None]
        combine = max if self.counts[name].combine == "max" else sum
        throughput = combine(rates) if rates and now - channel.begun >= WINDOW else None
        # A page that is late says nothing: until a node is away, silence is what its pages show.
        looked = max((its.looks[-1][0] for its in channel.counters.values()), default=now)
        age = None if channel.moved is None else max(0.0, looked - channel.moved)
        return ChannelReading(name, throughput, age, committed=round(channel.total), source="metrics")
