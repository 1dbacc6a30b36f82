"""What several laws and findings share: how much a component waits behind others, and what counts as much.

*Need* is the part of its runnable time that a component waits behind foreign work. Waiting behind other components of
the ledger is no reason to raise any of them, so waiting counts by the part of the busy CPU time that foreigners had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from qioi.controller.laws.law import ChannelSeen, Seen
from qioi.model import ChannelReading, DelayReading, HostLoad

#: Need up to which nobody waits.
QUIET = 0.08
#: A this far below T, as a part of T, counts as below.
BELOW = 0.05
#: Seconds after its last commit in which a channel is active: bursts come up to three batch timeouts (2 s) apart.
ACTIVE = 6.0
#: Room on the host: this part of its CPU time idle, or less than that of it foreign.
IDLE, FOREIGN = 0.08, 0.04


class Filter(NamedTuple):
    """Exponentially weighted run and foreign-waiting time per second."""

    run: float = 0.0
    wait: float = 0.0

    def add(self, run: float, wait: float, weight: float) -> Filter:
        """Move towards a new reading by ``weight`` (0..1)."""
        return Filter(self.run + weight * (run - self.run), self.wait + weight * (wait - self.wait))

    @property
    def runnable(self) -> float:
        """Runnable time per second."""
        return self.run + self.wait

    @property
    def need(self) -> float:
        """Share of runnable time spent waiting behind foreign work."""
        runnable = self.runnable
        return self.wait / runnable if runnable > 0 else 0.0


@lru_cache(maxsize=64)  # in one period nearly all components have the same interval
def weight(interval: float, constant: float) -> float:
    """Weight of a reading over ``interval`` in a filter with that time constant."""
    return 1.0 - math.exp(-interval / constant)


def rates(delay: DelayReading, host: HostLoad | None) -> tuple[float, float]:
    """Give run time and foreign-caused waiting time per second of wall time, as a component's, not its threads'.

    No share can bring a component a greater part of its runnable time than foreigners have of the busy time. Fifty
    threads in line behind each other wait fifty times a moment that somebody else has the CPU for.
    """
    part = waited_part(host)
    run, wait = max(0.0, delay.run) / delay.interval, max(0.0, delay.wait) * part / delay.interval
    most = part * (run + wait)
    return (run, wait) if wait <= most else (run + wait - most, most)


def waited_part(host: HostLoad | None) -> float:
    """Part of a component's waiting that foreigners caused, 0..1; all of it where the host's load is unknown."""
    return 1.0 if host is None else host.waited_part


def need_of(delay: DelayReading, host: HostLoad | None) -> float:
    """Give the share of a component's runnable time that it spent waiting behind foreign work, in one period."""
    return Filter(*rates(delay, host)).need


def odds(need: float) -> float:
    """Waiting to running. Weights divide a core as wait : run = others' weight : own weight (kernel, sched-design-CFS).

    So as much as these odds are to fall, the own weight has to grow, as long as the component is runnable.
    """
    return need / (1 - need) if need < 1 else math.inf


def shortfall(seen: Seen) -> float | None:
    """Compute diff/T: how far throughput is below the threshold, negative above it."""
    if seen.throughput is None or seen.threshold is None:
        return None
    return (seen.threshold - seen.throughput) / seen.threshold


def is_below(seen: Seen) -> bool:
    """Whether a channel is known to do less than it is owed."""
    return (shortfall(seen) or 0.0) > BELOW


def commits(reading: ChannelReading) -> bool:
    """Whether a channel has committed lately."""
    return reading.silence is not None and reading.silence <= ACTIVE


def is_active(seen: Seen | ChannelSeen) -> bool:
    """Whether somebody sends: the channel has committed lately, or is presumed to be sent to."""
    return seen.presumed or (seen.commit_age is not None and seen.commit_age <= ACTIVE)


def load_of(host: HostLoad | None, component: str) -> HostLoad | None:
    """Give the load of the CPUs that a component may run on, if it is known."""
    return host.of(component) if host is not None else None


def has_room(host: HostLoad | None) -> bool:
    """Whether the host has CPU to spare, or nobody foreign takes any, over a second; unknown counts as no."""
    if host is None:
        return False
    over = host.lasting or host
    return over.idle > IDLE or over.foreign < FOREIGN


def room_for(host: HostLoad | None, components: Iterable[str]) -> bool:
    """Whether there is room on the CPUs that each of these components may run on; without any, on the host."""
    return host is not None and all(map(has_room, [host.of(one) for one in components] or [host]))
