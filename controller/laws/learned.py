"""``threshold: auto``: what a channel reaches in periods in which none of its components waits behind foreign work.

Such a period shows the ledger as it is alone: its throughput is what was offered, or what it can do.
What is owed is a high quantile of these, over the last of them: a single burst does not set it, and when the
load falls for good, it follows. While anybody waits, nothing is learned, so interference cannot lower it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from qioi.controller.laws.need import QUIET, commits, load_of, need_of
from qioi.model import ChannelReading, DelayReading, HostLoad

#: Samples that are kept; at one a second, the last five minutes without waiting.
KEPT = 300
#: Samples before there is a threshold at all.
ENOUGH = 20
#: Seconds between two samples: shorter periods show the same window of commits again.
EVERY = 1.0
#: The quantile that is owed.
QUANTILE = 0.75


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a learned threshold rests on. Throughputs in transactions per second; ``age`` of the last sample in s."""

    samples: int
    needed: int
    lowest: float | None = None
    highest: float | None = None
    age: float | None = None


class Learner:
    """One channel's threshold, learned."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=KEPT)
        self._last: float | None = None

    @property
    def threshold(self) -> float | None:
        """What the channel is owed; ``None`` while too little is known."""
        if len(self._samples) < ENOUGH:
            return None
        return sorted(self._samples)[int(QUANTILE * (len(self._samples) - 1))]

    def observe(
        self, now: float, reading: ChannelReading | None, delays: Iterable[DelayReading], host: HostLoad | None
    ) -> None:
        """Take one period in; ``delays`` are those of the components that serve the channel."""
        if self._last is not None and now - self._last < EVERY:
            return
        if reading is None or not reading.throughput or not commits(reading):
            return
        needs = [need_of(delay, load_of(host, delay.component)) if delay.interval > 0 else 1.0 for delay in delays]
        if needs and max(needs) <= QUIET:
            self._samples.append(reading.throughput)
            self._last = now

    def evidence(self, now: float) -> Evidence:
        """Say what it rests on."""
        if not self._samples:
            return Evidence(0, ENOUGH)
        age = None if self._last is None else now - self._last
        return Evidence(len(self._samples), ENOUGH, min(self._samples), max(self._samples), age)
