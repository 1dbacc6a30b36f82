"""The law ``adaptive`` (ours): act on what is waited for, not on throughput alone.

Algorithm 1 has no memory: as throughput returns, its share falls back and starvation starts again.
This law keeps what it has found to be enough. It needs three things the paper's does without:

- *need*: the share of its runnable time that a component spends waiting behind foreign work. Waiting
  behind other components of the ledger is no reason to raise any of them, so waiting counts by the part
  of the busy CPU time that went to foreigners.
- *demand*: commits seen lately, or, before the first one, work that shows it (unheard.py). A ledger nobody sends to is
  never raised.
- *room*: an idle share of the host, or no foreign work. Raised shares remove the waiting that was their
  reason, so its absence proves nothing; idle CPU, or the end of the foreign work, does.

Raising is fast (one period), releasing is fast only when there is room; while the neighbour stays, the
share is probed downwards in small steps, ever more rarely once a probe has hurt. So shares settle.
The share itself is the integral of the steps, which leaves no steady-state error, and it is stored
clamped, which leaves nothing to wind up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from qioi.controller.laws.law import Seen, Verdict
from qioi.model import DEFAULT_SHARES, UNBOUNDED, Bounds, DelayReading, HostLoad, Working
from qioi.model.frozen import frozen

#: This part of a time has passed when all but a late clock's part of it has.
WHOLE = 0.9


@dataclass(frozen=True, slots=True)
class Tuning:
    """Constants of the law; times in seconds, needs and host shares 0..1.

    Found by simulation (tests/controller/laws/test_closed_loop.py) and beside sysbench on two cores.
    """

    low: float = 0.08  # need below this: nothing waits that a share could help
    high: float = 0.20  # need above this, lasting or soon after an urgent raise: raise
    urgent: float = 0.35  # need above this, for a second, or for a moment where the host is full: raise
    fast: float = 0.3  # time constants of two filters
    slow: float = 5.0
    second: float = 1.0  # what the third one takes the mean over
    settle: float = 0.5  # between two raises, so that the second sees what the first has done
    step_cap: float = 8.0  # largest factor of one raise
    dead_band: float = 0.05  # smaller moves, as a share of the value, are not made
    shortfall: float = 0.05  # A this far below T counts as below
    surplus: float = 0.10  # A this far above T: the tenant has what it is owed
    active_for: float = 6.0  # commits come in bursts up to three batch timeouts (2 s) apart
    hold: float = 10.0  # stale input: keep the share this long, then release
    release: float = 2.0  # time constant of the way back to the default
    room_idle: float = 0.08  # this share of the host idle, or ...
    room_foreign: float = 0.04  # ... foreign work below this share of it: there is room
    room_for: float = 3.0  # before it is believed
    relapse: float = 15.0  # a raise this soon after a release or probe says that it hurt
    back_off: float = 5.0  # first and longest time without a release after one that hurt
    back_off_max: float = 300.0
    probe_step: float = 0.05
    probe_every: float = 60.0
    probe_max: float = 3840.0


class Filter(NamedTuple):
    """Exponentially weighted run and foreign-waiting time per second."""

    run: float = 0.0
    wait: float = 0.0

    def add(self, run: float, wait: float, weight: float) -> Filter:
        """Move towards a new reading by ``weight`` (0..1)."""
        return Filter(self.run + weight * (run - self.run), self.wait + weight * (wait - self.wait))

    @property
    def need(self) -> float:
        """Share of runnable time spent waiting behind foreign work."""
        runnable = self.run + self.wait
        return self.wait / runnable if runnable > 0 else 0.0


class Memory(NamedTuple):
    """All that the law carries from one period to the next. ``None``: not yet, or not now.

    A tuple: it is made anew for every component in every period, and a frozen dataclass takes five times as long.
    """

    share: float
    wanted: float | None = None  # what this period's step asked for before the bounds; None: no step
    begun_at: float = -math.inf
    asked_at: float | None = None
    elapsed: float = 0.0  # between the last two times the law was asked
    input_at: float | None = None  # when it last saw commits and delays
    fast: Filter = Filter()
    second: Filter = Filter()
    slow: Filter = Filter()
    raised_at: float = -math.inf
    urgent_at: float = -math.inf  # the last raise that could not wait
    room_since: float | None = None
    released_at: float = -math.inf
    blocked_until: float = -math.inf
    block: float = 0.0
    probed_at: float = -math.inf
    probe_at: float = math.inf
    probe_wait: float = 0.0


@frozen
class Adaptive:
    """The law for one component and one channel."""

    default: int
    bounds: Bounds
    tuning: Tuning
    memory: Memory

    @classmethod
    def start(cls, default: int = DEFAULT_SHARES, bounds: Bounds = UNBOUNDED, tuning: Tuning | None = None) -> Adaptive:
        """Begin at the default (within the bounds) with nothing remembered."""
        return cls(default, bounds, tuning or Tuning(), Memory(float(bounds.clamp(default))))

    @property
    def share(self) -> float:
        """What it has come to."""
        return self.memory.share

    @property
    def rest(self) -> float:
        """Where the share goes when nothing is needed."""
        return float(self.bounds.clamp(self.default))

    def step(self, seen: Seen) -> tuple[Adaptive, Verdict]:
        """Remember what was seen, then take the first rule that applies."""
        law = Adaptive(self.default, self.bounds, self.tuning, self._remember(seen))
        rule, (memory, reason) = law._rule(seen)
        if memory is not law.memory:
            law = Adaptive(self.default, self.bounds, self.tuning, memory)
        asked = memory.share if memory.wanted is None else memory.wanted
        working = Working(rule, asked, law.bounds.floor, law.bounds.ceiling)
        return law, Verdict(law.bounds.clamp(memory.share), reason, shortfall(seen), working)

    def _rule(self, seen: Seen) -> tuple[str, tuple[Memory, str]]:
        """Name and apply the first rule that has something to say."""
        if (applied := self._without_input(seen)) is not None:
            return "no input", applied
        if (applied := self._raise(seen)) is not None:
            return "raise", applied
        if (applied := self._room(seen)) is not None:
            return "room", applied
        return "probe", self._probe(seen)

    def _remember(self, seen: Seen) -> Memory:
        """Feed the filters, and note how long there has been input and room."""
        memory, tuning, delay, now = self.memory, self.tuning, seen.delay, seen.now
        fast, second, slow = memory.fast, memory.second, memory.slow
        input_at, asked_at, begun_at = memory.input_at, memory.asked_at, memory.begun_at
        if asked_at is None:
            begun_at = now - (delay.interval if delay is not None else 0.0)
        if delay is not None and delay.interval > 0:
            run, wait = rates(delay, seen.host)
            fast = fast.add(run, wait, weight(delay.interval, tuning.fast))
            second = second.add(run, wait, min(1.0, delay.interval / tuning.second))
            slow = slow.add(run, wait, weight(delay.interval, tuning.slow))
            if seen.presumed or (seen.commit_age is not None and seen.commit_age <= tuning.active_for):
                input_at = now
        since = now if memory.room_since is None else memory.room_since
        return Memory(  # by place, all of it: naming what changes takes three times as long
            memory.share,
            None,
            begun_at,
            now,
            0.0 if asked_at is None else max(0.0, now - asked_at),
            input_at,
            fast,
            second,
            slow,
            memory.raised_at,
            memory.urgent_at,
            since if has_room(seen, tuning) else None,
            memory.released_at,
            memory.blocked_until,
            memory.block,
            memory.probed_at,
            memory.probe_at,
            memory.probe_wait,
        )

    def _without_input(self, seen: Seen) -> tuple[Memory, str] | None:
        """Stale or missing input: hold, then go back. Without commits nobody is known to wait for any."""
        memory = self.memory
        if memory.input_at == seen.now:
            return None
        missing = "no scheduling delay read" if seen.delay is None else "no commits"
        if memory.share == self.rest:
            return memory, f"{missing}: default share"
        since = memory.begun_at if memory.input_at is None else memory.input_at  # it may have been raised before
        if seen.now - since <= self.tuning.hold:
            return memory, f"{missing} for {seen.now - since:.0f} s: share held"
        return self._towards_rest(), f"{missing}: back towards the default"

    def _raise(self, seen: Seen) -> tuple[Memory, str] | None:
        """Raise where foreign work is waited for, by the need, at most by the step cap."""
        memory, tuning = self.memory, self.tuning
        error = shortfall(seen)
        if error is not None and error < -tuning.surplus:
            return None
        below = error is not None and error > tuning.shortfall
        since = seen.now - memory.raised_at
        pressing, slow = self._pressing(seen), memory.slow.need
        urgent = pressing > tuning.urgent or (below and pressing > tuning.low)
        # An urgent raise that was not enough is followed up at once: meanwhile a backlog grows.
        unfinished = pressing > tuning.high and seen.now - memory.urgent_at < tuning.slow
        if urgent or unfinished:
            if since < tuning.settle:
                return memory, "raised a moment ago: waiting for the effect"
            need = pressing
        elif min(pressing, slow) > tuning.high and seen.now - max(memory.raised_at, memory.begun_at) >= tuning.slow:
            need = slow
        else:
            return None
        # The step aims at where this rule ends: below the threshold that is the lower need.
        target = tuning.low if below else tuning.high
        growth = min(tuning.step_cap - 1, max(odds(need) / odds(target) - 1, error or 0.0))
        why = f"waits {need:.0%} of its runnable time behind foreign work"
        if below:
            why += f", {error:.0%} below its threshold"
        if memory.share >= self.bounds.ceiling:
            return memory, f"{why}, but is at its ceiling"
        if growth < tuning.dead_band:
            return memory, f"{why}: within the dead band"
        asked = memory.share * (1 + growth)
        share = float(self.bounds.clamp(asked))
        urgent_at = seen.now if urgent else memory.urgent_at
        # What is needed now is no room, though there may have been some for most of the last second.
        raised = memory._replace(share=share, wanted=asked, raised_at=seen.now, urgent_at=urgent_at, room_since=None)
        return self._learn(raised, seen.now), f"{why}: raised"

    def _pressing(self, seen: Seen) -> float:
        """Give the need that is not to wait any longer: of a moment where the host is full, or somebody has just come.

        Where it has room, a tenth of a second of somebody's work, a kernel thread's, is no neighbour. What lasts for a
        second is waited for, though: the component may be bound to CPUs that are full, or to a quota.
        """
        memory, tuning = self.memory, self.tuning
        if seen.host is None or seen.host.sudden or not has_room(seen, tuning):
            return memory.fast.need
        if seen.now - memory.begun_at <= WHOLE * tuning.second:
            return 0.0
        return min(memory.fast.need, memory.second.need)

    def _learn(self, memory: Memory, now: float) -> Memory:
        """Let a raise that closely follows a release or a probe put off the next one."""
        tuning = self.tuning
        if now - memory.released_at <= tuning.relapse:
            block = min(tuning.back_off_max, max(tuning.back_off, 2 * memory.block))
            memory = memory._replace(block=block, blocked_until=now + block, released_at=-math.inf)
        elif self.memory.share == self.rest:
            memory = memory._replace(block=0.0)
        wait = memory.probe_wait or tuning.probe_every
        if now - memory.probed_at <= tuning.relapse:
            wait = min(tuning.probe_max, 2 * wait)
        return memory._replace(probe_wait=wait, probe_at=now + wait, probed_at=-math.inf)

    def _room(self, seen: Seen) -> tuple[Memory, str] | None:
        """Go back when the neighbour is gone: the host has had room for a while."""
        memory, tuning = self.memory, self.tuning
        if memory.share == self.rest:
            return memory, "nothing waits: default share"
        if memory.room_since is None or seen.now - memory.room_since < tuning.room_for:
            return None
        if seen.now < memory.blocked_until:
            return memory, f"room on the host, but a release hurt lately: held {memory.blocked_until - seen.now:.0f} s"
        # A release for want of input is not marked: what is needed when commits come back says nothing about it.
        gone = self._towards_rest()._replace(released_at=seen.now)
        if memory.released_at < memory.room_since:  # how they were waited for says nothing about what is from now on
            gone = gone._replace(slow=memory.second)
        return gone, "the neighbour is gone: back towards the default"

    def _towards_rest(self) -> Memory:
        """Shrink the distance to the default exponentially; the last of it goes at once."""
        share = self.rest + (self.memory.share - self.rest) * math.exp(-self.memory.elapsed / self.tuning.release)
        if abs(share - self.rest) <= self.tuning.dead_band * self.rest:
            share = self.rest
        return self.memory._replace(share=share, probe_wait=0.0)

    def _probe(self, seen: Seen) -> tuple[Memory, str]:
        """While the neighbour stays: hold, and rarely try a slightly lower share."""
        memory, tuning = self.memory, self.tuning
        if seen.now < memory.probe_at:
            return memory, "the neighbour is still there: share held"
        later = memory._replace(probe_at=seen.now + memory.probe_wait)
        error = shortfall(seen)
        if memory.slow.need > tuning.low or (error is not None and error > tuning.shortfall):
            return later, "just enough: share held"
        share = max(self.rest, memory.share * (1 - tuning.probe_step))
        return later._replace(share=share, probed_at=seen.now), "more than enough: probing a lower share"


def shortfall(seen: Seen) -> float | None:
    """Compute diff/T: how far throughput is below the threshold, negative above it."""
    if seen.throughput is None or seen.threshold is None:
        return None
    return (seen.threshold - seen.throughput) / seen.threshold


def odds(need: float) -> float:
    """Waiting to running. Weights divide a core as wait : run = others' weight : own weight (kernel, sched-design-CFS).

    So as much as these odds are to fall, the own weight has to grow, as long as the component is runnable.
    """
    return need / (1 - need) if need < 1 else math.inf


def foreign_part(host: HostLoad | None) -> float:
    """Part of the busy CPU time that foreigners had, 0..1; all of it where the host's load is unknown."""
    if host is None:
        return 1.0
    busy = 1.0 - host.idle
    return min(1.0, max(0.0, host.foreign / busy)) if busy > 0 else 0.0


def rates(delay: DelayReading, host: HostLoad | None) -> tuple[float, float]:
    """Give run time and foreign-caused waiting time per second of wall time, as a component's, not its threads'.

    No share can bring a component a greater part of its runnable time than foreigners have of the busy time. Fifty
    threads in line behind each other wait fifty times a moment that somebody else has the CPU for.
    """
    part = foreign_part(host)
    run, wait = max(0.0, delay.run) / delay.interval, max(0.0, delay.wait) * part / delay.interval
    most = part * (run + wait)
    return (run, wait) if wait <= most else (run + wait - most, most)


def need_of(delay: DelayReading, host: HostLoad | None) -> float:
    """Give the share of a component's runnable time that it spent waiting behind foreign work, in one period."""
    return Filter(*rates(delay, host)).need


def weight(interval: float, constant: float) -> float:
    """Weight of a reading over ``interval`` in a filter with that time constant."""
    return 1.0 - math.exp(-interval / constant)


def has_room(seen: Seen, tuning: Tuning) -> bool:
    """Whether the host has CPU to spare, or nobody foreign takes any, over a second; unknown counts as no."""
    if seen.host is None:
        return False
    host = seen.host.lasting or seen.host
    return host.idle > tuning.room_idle or host.foreign < tuning.room_foreign
