"""A channel of which nothing is heard: whether its work shows that somebody sends.

``adaptive`` raises nobody while nobody sends, and knows that from commits. A ledger that others have starved since
before the start may make none: an orderer without CPU loses its leadership, and what a peer has endorsed waits in
vain. So until the first commit, work stands in for it: a component that has a thread runnable nearly all the time, for
some seconds, and waits for most of it behind foreign work, has more to do than it gets done.

An idle one waits too, each time that it wakes up beside a crowd. Measured (2 cores, lab, threads runnable on average,
and CPUs used; docs/laws.md): idle beside 16 and 64 sysbench up to 0.8 for a second, 0.4 for nine, and 0.004; under a
load that starves beside as many 1.3 to 2.7, in every second, and 0.005 to 0.03. So little work is left to what starves
that what it uses says less than that it is never without.

A channel that has committed, and is silent since, is believed at once: it has shown that it can, and the first second
of a burst that starves takes the rest of the burst to work off. So are most of a channel's components together. Beside
neighbours of which each weighs as much as the whole ledger, an idle component has 0.1 threads runnable at most, and a
second after a burst's beginning seven of eleven have 1.1 and more, though none of them has used 0.005 CPUs yet.

What is raised on that word is a trial. If it brings no commit, nobody sent, or no share helps: the word is taken back,
and not given again for a while.

Silence is not idleness. Whoever sends may be starved too, or have each call refused for want of a leader, and then no
component works all the time (measured beside 32 sysbench: 0.3 to 0.7 threads runnable, and 0.007 to 0.03 CPUs). So what
does as much now and then, and waits, for long, leaves a doubt, and a trial settles it: a raised share of an idle ledger
takes nothing from anybody. Doubts that come to nothing grow rare.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from qioi.controller.laws.backoff import Backoff
from qioi.controller.laws.need import Filter, load_of, rates, weight
from qioi.model import DelayReading, HostLoad

#: Threads, on average, that are runnable in a component which always has work to do, and CPUs that it uses at least.
RUNNABLE = 0.9
WORKS = 0.005
#: Share of its runnable time that it waits behind foreign work meanwhile.
WAITS = 0.35
#: Time constant in s of what these are taken from: a short period may show a starved component not to run at all.
SMOOTH = 1.0
#: Seconds for which all of it must last before a channel's first commit.
LASTS = 4.0
#: Part of a channel's components from which on it is believed at once that they wait together; their least number.
MOST, SEVERAL = 0.5, 3
#: Seconds of a trial, and from its end until there may be another one.
TRIAL = 30.0
PAUSE = 300.0
#: Threads runnable from which on a component that works and waits leaves a doubt, the time constant in s of what that
#: is taken from, and the seconds for which it must last.
SOME = 0.1
LONG = 20.0
DOUBTS = 20.0
#: Seconds between two trials of doubts at most: the pause doubles each time that no commit comes.
RARELY = 3600.0


class Work(NamedTuple):
    """One component's, smoothed: CPUs used, threads runnable, and what :func:`rates` says of running and waiting."""

    cpus: float = 0.0
    runnable: float = 0.0
    rates: Filter = Filter()

    def add(self, delay: DelayReading, host: HostLoad | None, constant: float) -> Work:
        """Take one period in, with a time constant in seconds."""
        part = weight(delay.interval, constant)
        cpus = max(0.0, delay.run) / delay.interval
        runnable = cpus + max(0.0, delay.wait) / delay.interval
        return Work(
            self.cpus + part * (cpus - self.cpus),
            self.runnable + part * (runnable - self.runnable),
            self.rates.add(*rates(delay, host), part),
        )


class Works(NamedTuple):
    """One component's work, over a second and over long."""

    lately: Work = Work()
    long: Work = Work()

    def add(self, delay: DelayReading, host: HostLoad | None) -> Works:
        """Take one period in."""
        return Works(self.lately.add(delay, host, SMOOTH), self.long.add(delay, host, LONG))

    @property
    def waits(self) -> bool:
        """Whether it has a thread runnable nearly all the time, and waits behind others for much of it."""
        return self.lately.runnable >= RUNNABLE and self.lately.rates.need >= WAITS

    @property
    def is_kept_back(self) -> bool:
        """Whether it does work, and waits to do more."""
        return self.waits and self.lately.cpus >= WORKS

    @property
    def may_be(self) -> bool:
        """Whether it may be kept back: it does so on average, and may be without work in between."""
        one = self.long
        return one.runnable >= SOME and one.cpus >= WORKS and one.rates.need >= WAITS


@dataclass(frozen=True, slots=True)
class Unheard:
    """One channel, with all that is remembered of it; no I/O, no clock. Times are monotonic, in seconds.

    ``presumed`` says that somebody is taken to send.
    """

    presumed: bool = False
    since: float | None = None  # when a component was first seen at work, without a break since
    until: float = -math.inf  # of the trial
    again: float = -math.inf  # when there may be another one
    doubtful: float | None = None  # when a component was first seen to wait, without a break since
    doubts: Backoff = field(default_factory=Backoff)
    works: Mapping[str, Works] = field(default_factory=dict)

    def step(self, now: float, delays: Iterable[DelayReading], host: HostLoad | None, lasts: float = LASTS) -> Unheard:
        """Take in one more period without a commit; ``delays`` are of components that serve silent channels only.

        ``lasts`` are the seconds for which their work must show that somebody sends.
        """
        works = {
            one.component: self.works.get(one.component, Works()).add(one, load_of(host, one.component))
            for one in delays
            if one.interval > 0
        }
        if self.presumed:
            return replace(self, works=works) if now < self.until else self._in_vain(now, works)
        may_begin = now >= self.again
        at_work = may_begin and any(one.is_kept_back for one in works.values())
        in_doubt = now >= self.doubts.until and any(one.may_be for one in works.values())
        since = (now if self.since is None else self.since) if at_work else None
        doubtful = (now if self.doubtful is None else self.doubtful) if in_doubt else None
        if may_begin and most_wait(works.values()):
            since = -math.inf  # as sure as what has lasted
        sure = since is not None and now - since >= lasts
        if sure or (doubtful is not None and now - doubtful >= DOUBTS):
            return Unheard(True, since if sure else None, now + TRIAL, self.again, doubts=self.doubts, works=works)
        return Unheard(False, since, again=self.again, doubtful=doubtful, doubts=self.doubts, works=works)

    def _in_vain(self, now: float, works: Mapping[str, Works]) -> Unheard:
        """End a trial that brought no commit. That of a doubt says little of work that shows more."""
        again = self.again if self.since is None else now + PAUSE
        return Unheard(again=again, doubts=self.doubts.hurt(now, PAUSE, RARELY), works=works)


def most_wait(works: Collection[Works]) -> bool:
    """Whether most of a channel's components wait at once."""
    waiting = sum(one.waits for one in works)
    return waiting >= max(SEVERAL, MOST * len(works))
