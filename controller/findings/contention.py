"""Components of the ledger that compete with each other: tenants of which one has more than it is owed, and burners.

What they use is foreign work for those that they keep back, so that ``adaptive`` raises these against them as against
any neighbour. On a full host without foreign work, a channel with a number for T that is below it is raised against the
channels that have theirs: in small steps, until it has its T or the others are down to theirs. It keeps what it has
until there is room that lasts, since to let go of it would begin all of it again.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Container, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from qioi.controller.findings.diagnoses import see
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.need import FOREIGN, IDLE, is_active, is_below, shortfall
from qioi.controller.laws.room import LastingRoom
from qioi.controller.laws.thresholds import AUTO
from qioi.controller.period import Period
from qioi.model import Component, HostLoad, Role

Channels = tuple[str, ...]

#: What a share is multiplied by at most in a period, against a tenant: a larger step would take the tenant below its T.
STEP = 1.1

TENANT = "another channel has more than it is owed, and this one less"


class Rivals(Struct, frozen=True):
    """By component: the load as laws are to see it where it is another one than the host's own, and the limits."""

    loads: Mapping[str, HostLoad] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)


class Contention:
    """Remembers which components were raised against others of the ledger."""

    def __init__(self, cpus: int | None = None) -> None:
        self._cpus = cpus or os.cpu_count() or 1
        self._held: set[str] = set()
        self._room = LastingRoom()

    def step(self, period: Period, burning: Collection[str], presumed: Container[str] = ()) -> Rivals:
        """Take one period in; ``burning`` names the components that burn.

        ``presumed`` names channels that make no commits, but are taken to be sent to.
        """
        host = period.host
        if host is None:
            return Rivals()
        if self._has_room(period.now, host):
            held = [one.name for one in period.components if one.name in self._held]
            return Rivals({name: beside(host.of(name), 0.0, FOREIGN) for name in held})
        stated = [name for name, one in period.owed.items() if one.value and one.source != AUTO]
        promised = {name: see(period, name, presumed) for name in stated}
        below = {name for name, one in promised.items() if is_active(one) and is_below(one)}
        alone = host.foreign < FOREIGN
        short = {name: shortfall(one) for name, one in promised.items() if alone}
        served = {name for name, one in short.items() if one is not None and one <= 0}
        parts = [one for one in period.components if one.role is not Role.CLIENT and one.name in period.delays]
        used: defaultdict[Channels, float] = defaultdict(float)
        burnt = 0.0
        for one in parts:
            cores = period.delays[one.name].cores
            if one.name in burning:
                burnt += cores
            elif one.channels and served.issuperset(one.channels):
                used[one.channels] += cores
        self._held &= {one.name for one in parts}
        loads, limits = {}, {}
        for one in parts:
            given = 0.0 if below.isdisjoint(one.channels) else used_by_others(used, one)
            if given:
                self._held.add(one.name)
                if (force := period.forces.get(one.name)) is not None:
                    limits[one.name] = Limit(Reason.TENANT, TENANT, round(force.share * STEP))
            more = given + (0.0 if one.name in burning else burnt)
            if more or one.name in self._held:
                least = FOREIGN if one.name in self._held else 0.0
                loads[one.name] = beside(host.of(one.name), more / self._cpus, least)
        return Rivals(loads, limits)

    def _has_room(self, now: float, host: HostLoad) -> bool:
        """Say whether CPU time is idle; let go of everybody where that lasts."""
        room = (host.lasting or host).idle > IDLE
        if self._room.step(now, room):
            self._held.clear()
        return room


def used_by_others(used: Mapping[Channels, float], one: Component) -> float:
    """Sum up the CPUs that components use which have no channel in common with this one."""
    return sum(cores for channels, cores in used.items() if set(channels).isdisjoint(one.channels))


def beside(load: HostLoad, more: float, least: float) -> HostLoad:
    """Count more of what is used as foreign work, and so much at the least."""

    def mixed(one: HostLoad) -> HostLoad:
        return replace(one, foreign=min(1.0 - one.idle, max(least, one.foreign + more)))

    return replace(mixed(load), lasting=load.lasting and mixed(load.lasting), pinned={})
