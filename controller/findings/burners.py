"""Components that burn CPU time without committing: a runaway chaincode, or a stranger's process in its group.

More shares would only let it burn more. What a component does for each committed transaction tells: beside neighbours
it is about what it is alone, a third more while real Fabric works off a backlog (docs/notes/2026-11-27-more-share.md).
So its usual CPU time per transaction is learned, and it burns when it is never without work and takes several times as
much, more than any other component of its channels. A load of queries raises that of a peer and of its chaincode
together, and is no such finding. What transactions take for hours becomes usual: a new contract may need more.

In a channel that does not commit at all, one burns that has always work to do while the others have none. Where these
wait too, the channel is starved.

One that is alone in its channels has nothing to be compared with: what it does may be all that is asked of it. What
supports others is no comparison. A database's node that answers reads, of which nobody counts any, burns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.need import commits, weight
from qioi.controller.period import Period
from qioi.model import Component, Role

#: Time constants in s: of what is compared, and of what is usual. What is usual is known after so many seconds.
SMOOTH, USUAL, KNOWN = 5.0, 120.0, 20.0
#: Time constant in s, by factors, by which what is usual follows what is far more: six times as much burns for two
#: hours, sixty times as much for three and a half.
LASTING = 7200.0
#: Threads of it that are runnable on average; CPUs that it uses beyond what is usual.
RUNNABLE, EXCESS = 0.9, 0.25
#: Times of what is usual, from which on it burns, and until which it does; and up to which it is learned from at once.
TIMES, UNTIL, LEARNT = 3.0, 2.0, 1.5
#: Part of its own that the others of a silent channel are runnable at the most.
ALONE = 0.25
#: Seconds for which it lasts before it is said.
LASTS = 8.0
#: Transactions per second from which on the CPU time of one means something.
COMMITS = 1.0


class Burner(Struct, frozen=True):
    """One component's: smoothed CPUs, runnable threads and transactions per second, and its usual CPU time for one.

    ``since`` is when it was first seen to burn without a break, ``burns`` whether that has lasted.
    """

    cores: float = 0.0
    runnable: float = 0.0
    rate: float = 0.0
    usual: float | None = None
    seen: float = 0.0  # seconds of it that were learned from
    since: float = math.inf
    burns: bool = False

    def add(self, cores: float, runnable: float, rate: float, interval: float) -> Burner:
        """Take one period in."""
        part = 1.0 if self.seen == 0.0 and self.cores == 0.0 else weight(interval, SMOOTH)
        after = replace(
            self,
            cores=self.cores + part * (cores - self.cores),
            runnable=self.runnable + part * (runnable - self.runnable),
            rate=self.rate + part * (rate - self.rate),
        )
        if after.rate < COMMITS:
            return after
        if self.usual is not None and after.times > LEARNT:
            return replace(after, usual=self.usual * after.times ** weight(interval, LASTING))
        each = after.cores / after.rate
        usual = each if self.usual is None else self.usual + weight(interval, USUAL) * (each - self.usual)
        return replace(after, usual=usual, seen=self.seen + interval)

    @property
    def times(self) -> float:
        """How many times its usual CPU time a transaction takes now; 1 where that is not known."""
        if self.usual is None or self.usual <= 0 or self.rate < COMMITS:
            return 1.0
        return self.cores / self.rate / self.usual

    @property
    def is_hot(self) -> bool:
        """Whether it is never without work, and uses much."""
        return self.runnable >= RUNNABLE and self.cores >= EXCESS

    def is_burning(self, others: Collection[Burner], silent: bool) -> bool:
        """Whether one that is hot burns, beside the other components of its channels."""
        if not others:
            return False
        if silent:
            return sum(one.runnable for one in others) <= ALONE * self.runnable
        if self.usual is None or self.seen < KNOWN or self.cores - self.usual * self.rate < EXCESS:
            return False
        return self.times >= (UNTIL if self.burns else TIMES * max(one.times for one in others))

    def after(self, now: float, burning: bool) -> Burner:
        """Note what it looks like."""
        since = min(self.since, now) if burning else math.inf
        burns = burning and now - since >= LASTS
        return self if (since, burns) == (self.since, self.burns) else replace(self, since=since, burns=burns)


class Burners:
    """All components'."""

    def __init__(self) -> None:
        self._known: dict[str, Burner] = {}

    def step(self, period: Period) -> dict[str, Limit]:
        """Take one period in; give the limits of those that burn, by name."""
        parts = [one for one in period.components if one.role is not Role.CLIENT and one.name in period.delays]
        rates = {name: one.throughput or 0.0 for name, one in period.channels.items()}
        sums = {channels: served(channels, rates) for channels in {one.channels for one in parts}}
        after = {}
        for one in parts:
            delay, before = period.delays[one.name], self._known.get(one.name, Burner())
            if delay.interval > 0:
                runnable = delay.cores + max(0.0, delay.wait) / delay.interval
                before = before.add(delay.cores, runnable, sums[one.channels], delay.interval)
            after[one.name] = before
        hot = [one for one in parts if one.role is not Role.REPLICA and after[one.name].is_hot]
        burning = {one.name for one in hot if looks_so(one, parts, after, period)}
        self._known = {name: one.after(period.now, name in burning) for name, one in after.items()}
        return {name: Limit(Reason.BURNS, said(one), 0) for name, one in self._known.items() if one.burns}


def looks_so(one: Component, parts: Iterable[Component], known: Mapping[str, Burner], period: Period) -> bool:
    """Whether one of the components burns, as far as this period shows."""
    others = [
        known[other.name]
        for other in parts
        if other is not one and other.role is not Role.SUPPORT and share_a_channel(one, other)
    ]
    readings = [each for name, each in period.channels.items() if not one.channels or name in one.channels]
    return known[one.name].is_burning(others, not any(map(commits, readings)))


def served(channels: tuple[str, ...], rates: Mapping[str, float]) -> float:
    """Give the transactions per second of these channels together; none of them named means all."""
    return sum(rate for name, rate in rates.items() if not channels or name in channels)


def share_a_channel(one: Component, other: Component) -> bool:
    """Whether two components work for a channel together."""
    return not one.channels or not other.channels or not set(one.channels).isdisjoint(other.channels)


def said(one: Burner) -> str:
    """Say it in one clause."""
    if one.rate < COMMITS or one.usual is None:
        return f"burns {one.cores:.1f} CPUs, and nothing is committed"
    return f"burns: a committed transaction takes {one.times:.0f} times the CPU time that is usual"
