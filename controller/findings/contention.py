"""Components of the ledger that compete with each other: tenants of which one has more than it is owed, and burners.

What they use is foreign work for those that they keep back, so that ``adaptive`` raises these against them as against
any neighbour. It counts as far as both may run on the same CPUs. On a full host without foreign work, a channel with a
number for T that is below it is raised against the channels that have theirs: in small steps, until it has its T or the
others are down to theirs. It keeps what it has until there is room that lasts, since to let go of it would begin all of
it again, or until a channel beside it lacks more than it does by a tenth of T.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from qioi.controller.findings.channels import SeenChannels
from qioi.controller.findings.going_back import ANYWHERE, Channels, Cpus, GoingBack, meet
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.findings.tenants import Tenants, tenants_of
from qioi.controller.laws.need import FOREIGN, IDLE, QUIET, need_of
from qioi.controller.laws.room import ROOM_FOR
from qioi.controller.levels.placement import KeptBack
from qioi.controller.levels.steps import Steps
from qioi.controller.levels.wants import InForce, Want
from qioi.controller.period import Period
from qioi.model import Component, HostLoad, Role
from qioi.model.groups import chain

TENANT = "another channel has more than it is owed, and this one less"
#: A step is a tenth times the part of their Ts that tenants have beyond them, which counts as this at least. Rates tell
#: some seconds late, and whole steps until then would take tenants far below their Ts.
LEAST = 0.1
#: Part of the CPUs below which nobody foreign works. Neighbours that raised shares squeeze may have little more.
NOBODY = 0.01
#: CPUs from which on a tenant has something to give.
USES = 0.01
#: Sets of channels whose rivals are looked for among the levels, in one period: for each, all components are asked.
MOST_SETS = 16


class Rivals(Struct, frozen=True):
    """By component: the load as laws are to see it where it is another one than the host's own, and the limits.

    ``kept_back`` says by whom each is that others keep back, by its group.
    """

    loads: Mapping[str, HostLoad] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    kept_back: Mapping[str, KeptBack] = field(default_factory=dict)


class Beside(NamedTuple):
    """What a period says of all that a component may meet.

    ``used(channels)`` are the CPUs, by where, of those that have theirs and serve none of these. ``spare`` is the least
    that one of them who meets some CPUs has beyond its Ts, 0..1 of these.
    """

    period: Period
    tenants: Tenants
    burning: Collection[str]
    burnt: Mapping[Cpus, float]
    used: Callable[[Channels], Mapping[Cpus, float]]
    spare: Callable[[Channels, Cpus], float]


class KeptDown(NamedTuple):
    """One that others of the ledger keep back, and the load as its laws are to see it.

    ``by_tenants``: nobody else does. ``starved``: tenants do now, which have ``spare`` to give; it ``waits`` while
    others are to go back first.
    """

    one: Component
    load: HostLoad
    by_tenants: bool
    starved: bool
    spare: float
    waits: bool


class Contention:
    """Remembers which components were raised against others of the ledger."""

    def __init__(self, cpus: int | None = None) -> None:
        self._stated, self._cpus = cpus, cpus or 1
        #: Those that are held, and when the CPUs that each may run on were last full.
        self._held: dict[str, float] = {}
        #: Those whose share in force has been seen, and when those were that were raised by then.
        self._seen: set[str] = set()
        self._inherited: dict[str, float] = {}
        self._steps = Steps()
        self._going_back = GoingBack()
        self._kept_back: Mapping[str, KeptBack] = {}
        self._components: tuple[Component, ...] = ()
        self._outer: dict[str, str] = {}

    def step(self, period: Period, burning: Collection[str], seen: SeenChannels) -> Rivals:
        """Take one period in, of which that was ``seen`` of channels; ``burning`` names the components that burn."""
        self._steps.begin(period.now)
        self._cpus = self._stated or os.cpu_count() or 1  # they may come and go
        tenants = tenants_of(period.owed, seen)
        self._hold_inherited(period, tenants.stated)
        self._going_back.begin(period, tenants, self._held)
        if not (self._held or (period.host is not None and (tenants.below or burning))):
            return Rivals()
        if period.host is None:
            return self._kept(period.forces)
        parts = self._parts(period, tenants.stated)
        used, burnt = uses(period, own_cores(period, self._outer), tenants, burning)
        others = cache(lambda channels: used_by_others(used, channels))
        spare = cache(lambda channels, cpus: spare_beside(tenants, used, channels, cpus))
        all_beside = Beside(period, tenants, burning, burnt, others, spare)
        loads: dict[str, HostLoad] = {}
        kept_down: list[KeptDown] = []
        for one in parts:
            load = period.host.of(one.name)
            if self._has_room(period.now, one.name, load):
                if one.name in self._held:
                    loads[one.name] = with_foreign(load, 0.0, FOREIGN)
                continue
            # Where the load of its own CPUs is not known, the host's counts, and of others what they use of that.
            cpus = period.cpus.get(one.name, ANYWHERE) if one.name in period.host.pinned else ANYWHERE
            if (its := self._look_at(one, load, cpus, all_beside)) is not None:
                loads[one.name] = its.load
                kept_down.append(its)
        limits = self._limits(period.forces, kept_down)
        self._kept_back = by_whom(kept_down, self._going_back.most, all_beside)
        return Rivals(loads, limits, self._kept_back)

    def answer(self, wants: Collection[Want], capped: Container[str] = ()) -> None:
        """Take in what was asked for in this period within the limits; some were ``capped`` afterwards."""
        self._going_back.answer(wants)
        decisions = (want.decision for want in wants)
        self._steps.answer((one.component, 0 if one.component in capped else one.shares) for one in decisions)

    def _hold_inherited(self, period: Period, stated: frozenset[str]) -> None:
        """Hold what is first seen raised, where CPUs are full and nothing is foreign: an earlier daemon raised it.

        It did so against tenants, most likely, so that there are to be channels with Ts beside its own. One period may
        have a moment of foreign work, so that several are looked at, for as long as a law waits before it lets go.
        """
        if period.host is None:
            return
        now = period.now
        new = (period.forces.keys() & period.delays.keys()) - self._seen
        if new:
            self._inherited |= {name: now for name, _ in period.raised() if name in new}
            there = {one.name for one in period.components}
            self._seen = (self._seen & there) | new  # one that is absent for a period is not new after it
        if not self._inherited:
            return
        for one in period.components:
            if one.name in self._inherited and not stated.issubset(one.channels):
                load = period.host.of(one.name)
                if load.foreign < NOBODY and not self._has_room(now, one.name, load):
                    self._held[one.name] = now
        waiting = self._inherited.items()
        self._inherited = {name: at for name, at in waiting if name not in self._held and now - at < ROOM_FOR}

    def _kept(self, forces: Mapping[str, InForce]) -> Rivals:
        """Keep what is held as it is: laws take all waiting for foreign work where the host's load is not known."""
        limits = {
            name: Limit(Reason.TENANT, TENANT, force.share)
            for name in self._held
            if (force := forces.get(name)) is not None
        }
        return Rivals({}, limits, {group: by._replace(is_raised=False) for group, by in self._kept_back.items()})

    def _parts(self, period: Period, stated: frozenset[str]) -> list[Component]:
        """Give the components that others may keep back; let go of what is gone, or of whose channels none has a T."""
        if period.components is not self._components:
            self._components, self._outer = period.components, outer_ones(period.components)
        if self._held:
            names = {one.name for one in period.components if not stated.isdisjoint(one.channels)}
            self._held = {name: full for name, full in self._held.items() if name in names}
        return [one for one in period.components if one.role is not Role.CLIENT and one.name in period.delays]

    def _look_at(self, one: Component, load: HostLoad, cpus: Cpus, all_beside: Beside) -> KeptDown | None:
        """Say how others of the ledger keep one back whose CPUs are full; ``None``: not at all."""
        alone = load.foreign < FOREIGN
        lacks = alone and not all_beside.tenants.below.isdisjoint(one.channels)
        given = self._part(all_beside.used(one.channels), cpus) if lacks else 0.0
        more = given + (0.0 if one.name in all_beside.burning else self._part(all_beside.burnt, cpus))
        # A channel may do less than its T because no more is sent: then nobody is to go back for it.
        starves = lacks and need_of(all_beside.period.delays[one.name], None) > QUIET
        waits = starves and self._going_back.ask(one.channels, cpus)
        if given:
            self._held[one.name] = all_beside.period.now
        held = one.name in self._held
        if not (more or held):
            return None
        load = with_foreign(load, more, FOREIGN if held else 0.0)
        spare = all_beside.spare(one.channels, cpus) if given else 0.0
        return KeptDown(one, load, alone and more == given and held, bool(given), spare, waits)

    def _limits(self, forces: Mapping[str, InForce], kept_down: Iterable[KeptDown]) -> dict[str, Limit]:
        """Limit those that tenants starve to a step more, or to what they have while others are to go back first."""
        limits = self._going_back.limits(self._steps)
        for its in kept_down:
            name = its.one.name
            if its.starved and name not in limits and (force := forces.get(name)) is not None:
                most = force.share
                if force.placement.kept_back and not its.waits:  # where they meet is known one period later
                    most = self._steps.up(name, most, max(LEAST, its.spare))
                limits[name] = Limit(Reason.TENANT, TENANT, most)
        return limits

    def _has_room(self, now: float, name: str, load: HostLoad) -> bool:
        """Say whether CPU time is idle where a component may run; let go of it where that lasts."""
        room = (load.lasting or load).idle > IDLE
        if name in self._held:
            if not room:
                self._held[name] = now
            elif now - self._held[name] >= ROOM_FOR:
                del self._held[name]
        return room

    def _part(self, used: Mapping[Cpus, float], cpus: Cpus) -> float:
        """Give what others use of these CPUs, as a part of them.

        ``used`` are CPUs by where they may be used, and taken to be spread evenly there, as in HostWatch.
        """
        return sum(
            (cores * len(where & cpus) / (len(where) * len(cpus)) if where and cpus else cores / self._cpus)
            for where, cores in used.items()
        )


def outer_ones(components: Iterable[Component]) -> dict[str, str]:
    """Name, for each component whose group lies in others', the innermost of these."""
    names = {one.cgroup: one.name for one in components}
    around = {name: [names[level] for level in chain(group)[1:] if level in names] for group, name in names.items()}
    return {name: outer[0] for name, outer in around.items() if outer}


def own_cores(period: Period, outer: Mapping[str, str]) -> dict[str, float]:
    """Give the CPUs that each component uses without those in its group, whose CPU time its account includes."""
    cores = {name: one.cores for name, one in period.delays.items()}
    own = dict(cores)
    for name, around in outer.items():
        if name in cores and around in cores:
            own[around] = max(0.0, own[around] - cores[name])
    return own


def uses(
    period: Period, cores: Mapping[str, float], tenants: Tenants, burning: Container[str]
) -> tuple[dict[tuple[Channels, Cpus], float], dict[Cpus, float]]:
    """Give the CPUs that those use whose channels all have what they are owed, and those that burn, by where.

    ``cores`` are the CPUs that each component uses itself; clients count for nobody.
    """
    used: defaultdict[tuple[Channels, Cpus], float] = defaultdict(float)
    burnt: defaultdict[Cpus, float] = defaultdict(float)
    for one in period.components:
        if one.role is Role.CLIENT or one.name not in cores:
            continue
        cpus = period.cpus.get(one.name, ANYWHERE)
        if one.name in burning:
            burnt[cpus] += cores[one.name]
        elif tenants.have_theirs(one.channels):
            used[one.channels, cpus] += cores[one.name]
    return used, burnt


def by_whom(kept_down: Iterable[KeptDown], less: Container[str], all_beside: Beside) -> dict[str, KeptBack]:
    """Say by whom each group is kept back: by those who burn, or have what they are owed; and who is raised now.

    Those who are to have ``less`` are not.
    """
    tenants = all_beside.tenants
    parts = [one for one in all_beside.period.components if one.role is not Role.CLIENT]
    burners = frozenset(one.cgroup for one in parts if one.name in all_beside.burning)
    served = set(filter(tenants.have_theirs, {one.channels for one in parts}))
    by: dict[Channels, frozenset[str]] = {}
    found = {}
    for its in kept_down:
        channels = its.one.channels if its.starved else ()
        if channels not in by and len(by) < MOST_SETS:
            rivals = {theirs for theirs in served if set(theirs).isdisjoint(channels)} if channels else ()
            by[channels] = burners.union(one.cgroup for one in parts if one.channels in rivals)
        is_raised = its.starved and not its.waits and its.one.name not in less
        found[its.one.cgroup] = KeptBack(by.get(channels, burners), its.by_tenants, is_raised)
    return found


def used_by_others(used: Mapping[tuple[Channels, Cpus], float], mine: Channels) -> dict[Cpus, float]:
    """Sum up, by where, the CPUs that components use which have no channel in common with these."""
    sums: defaultdict[Cpus, float] = defaultdict(float)
    for (channels, cpus), cores in used.items():
        if set(channels).isdisjoint(mine):
            sums[cpus] += cores
    return sums


def spare_beside(tenants: Tenants, used: Mapping[tuple[Channels, Cpus], float], mine: Channels, cpus: Cpus) -> float:
    """Give the least that one has beyond its Ts, 0..1 of these, of those who may run on these CPUs and do."""
    spare = (
        -tenants.worst(theirs)
        for (theirs, where), cores in used.items()
        if cores >= USES and set(theirs).isdisjoint(mine) and meet(where, cpus)
    )
    return min([1.0, *spare])


def with_foreign(load: HostLoad, more: float, least: float) -> HostLoad:
    """Count more of what is used as foreign work, and so much at the least."""

    def mixed(one: HostLoad) -> HostLoad:
        return replace(one, foreign=min(1.0 - one.idle, max(least, one.foreign + more)))

    return replace(mixed(load), lasting=load.lasting and mixed(load.lasting), pinned={})
