"""Components of the ledger that compete with each other: tenants of which one has more than it is owed, and burners.

What they use is foreign work for those that they keep back, so that ``adaptive`` raises these against them as against
any neighbour. It counts as far as both may run on the same CPUs. On a full host without foreign work, a channel with a
number for T that is below it is raised against the channels that have theirs: in small steps, until it has its T or the
others are down to theirs. It keeps what it has until there is room that lasts, since to let go of it would begin all of
it again.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Set
from functools import cache
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from qioi.controller.findings.diagnoses import see
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.law import Seen
from qioi.controller.laws.need import FOREIGN, IDLE, is_active, is_below, shortfall
from qioi.controller.laws.room import ROOM_FOR
from qioi.controller.laws.thresholds import AUTO, Threshold
from qioi.controller.levels.placement import STEP, KeptBack
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import Component, HostLoad, Role
from qioi.model.groups import chain

Channels = tuple[str, ...]
Cpus = frozenset[int]

#: The CPUs of what may run on all, or of what nobody has asked.
ANYWHERE: Cpus = frozenset()


TENANT = "another channel has more than it is owed, and this one less"
EASED = "another channel has less than it is owed, and this one was raised against others"
#: Sets of channels whose rivals are looked for among the levels, in one period: for each, all components are asked.
MOST_SETS = 16


class Rivals(Struct, frozen=True):
    """By component: the load as laws are to see it where it is another one than the host's own, and the limits.

    ``kept_back`` says by whom each is that others keep back, by its group.
    """

    loads: Mapping[str, HostLoad] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    kept_back: Mapping[str, KeptBack] = field(default_factory=dict)


class Back(NamedTuple):
    """The channels that tenants keep one from serving; whether nobody else keeps it back; whether it is raised now."""

    channels: Channels
    by_tenants: bool
    is_raised: bool


class Contention:
    """Remembers which components were raised against others of the ledger."""

    def __init__(self, cpus: int | None = None) -> None:
        self._cpus = cpus or os.cpu_count() or 1
        #: Those that are held, and when the CPUs that each may run on were last full.
        self._held: dict[str, float] = {}
        #: What was asked for against tenants in the period before, in shares.
        self._asked: dict[str, float] = {}
        self._components: tuple[Component, ...] = ()
        self._outer: dict[str, str] = {}

    def step(self, period: Period, burning: Collection[str], presumed: Container[str] = ()) -> Rivals:
        """Take one period in; ``burning`` names the components that burn.

        ``presumed`` names channels that make no commits, but are taken to be sent to.
        """
        host = period.host
        if host is None:
            return Rivals()
        promised = {name: see(period, name, presumed) for name, one in period.owed.items() if is_stated(one)}
        below = {name for name, one in promised.items() if is_active(one) and is_below(one)}
        if not (below or burning or self._held):
            return Rivals()
        parts = [one for one in period.components if one.role is not Role.CLIENT and one.name in period.delays]
        if period.components is not self._components:
            self._components, self._outer = period.components, outer_ones(period.components)
        served = {name for name, one in promised.items() if is_served(one)}
        used, burnt = uses(period, own_cores(period, self._outer), served, burning)
        names = {one.name for one in parts}
        self._held = {name: full for name, full in self._held.items() if name in names}
        others = cache(lambda channels: used_by_others(used, channels))
        greedy = cache(lambda channels: self._raised_beside(period, served, channels))
        asked, self._asked = self._asked, {}
        loads, back = {}, {}
        limits: dict[str, Limit] = {}
        for one in parts:
            load = host.of(one.name)
            if self._has_room(period.now, one.name, load):
                if one.name in self._held:
                    loads[one.name] = beside(load, 0.0, FOREIGN)
                continue
            # Where the load of its own CPUs is not known, the host's counts, and of others what they use of that.
            cpus = period.cpus.get(one.name, ANYWHERE) if one.name in host.pinned else ANYWHERE
            alone = load.foreign < FOREIGN
            given = self._part(others(one.channels), cpus) if alone and below.intersection(one.channels) else 0.0
            more = given + (0.0 if one.name in burning else self._part(burnt, cpus))
            raised = greedy(one.channels) if given else {}
            if given:
                self._held[one.name] = period.now
                limits |= self._against(one, period.forces, raised, asked)
            if more or one.name in self._held:
                loads[one.name] = beside(load, more, FOREIGN if one.name in self._held else 0.0)
                by_tenants = alone and more == given and one.name in self._held
                back[one.cgroup] = Back(one.channels if given else (), by_tenants, bool(given) and not raised)
        return Rivals(loads, limits, by_whom(period, back, served, burning))

    def _against(
        self, one: Component, forces: Mapping[str, InForce], raised: Mapping[str, Limit], asked: Mapping[str, float]
    ) -> dict[str, Limit]:
        """Limit what one gets against tenants to a step more; those that are ``raised`` themselves go back first.

        A small weight stays what it is by one step: what was ``asked`` for grows until it is another one.
        """
        if (force := forces.get(one.name)) is None:
            return {}
        most = float(force.share)
        if not raised and force.placement.kept_back:  # at which level they meet is known one period later
            most = self._asked[one.name] = min(2.0 * most, max(most, asked.get(one.name, 0.0)) * STEP)
        return {one.name: Limit(Reason.TENANT, TENANT, round(most)), **raised}

    def _raised_beside(self, period: Period, served: Set[str], channels: Channels) -> dict[str, Limit]:
        """Limit those to a step less that are raised against tenants, and have what they are owed, beside a channel.

        Otherwise two that have theirs by turns would raise each other to the ceiling.
        """
        return {
            one.name: Limit(Reason.TENANT, EASED, round(force.share / STEP))
            for one in period.components
            if one.name in self._held and is_rival(one, served, channels)
            if (force := period.forces.get(one.name)) is not None and force.share > force.original
        }

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


def is_stated(owed: Threshold) -> bool:
    """Whether somebody has said what a channel is owed."""
    return bool(owed.value) and owed.source != AUTO


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


def is_served(seen: Seen) -> bool:
    """Whether a channel is known to have what it is owed."""
    short = shortfall(seen)
    return short is not None and short <= 0


def uses(
    period: Period, cores: Mapping[str, float], served: Set[str], burning: Container[str]
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
        elif one.channels and served >= set(one.channels):
            used[one.channels, cpus] += cores[one.name]
    return used, burnt


def is_rival(one: Component, served: Set[str], channels: Channels) -> bool:
    """Whether one has what it is owed in all of its channels, of which none is among these."""
    return bool(one.channels) and served >= set(one.channels) and set(one.channels).isdisjoint(channels)


def by_whom(period: Period, back: Mapping[str, Back], served: Set[str], burning: Container[str]) -> dict[str, KeptBack]:
    """Say by whom each group in ``back`` is kept back: by those who burn, or have what they are owed."""
    parts = [one for one in period.components if one.role is not Role.CLIENT]
    burners = frozenset(one.cgroup for one in parts if one.name in burning)
    known: dict[Channels, frozenset[str]] = {(): burners}
    for channels in list({one.channels for one in back.values()})[:MOST_SETS]:
        if channels:
            known[channels] = burners.union(one.cgroup for one in parts if is_rival(one, served, channels))
    return {
        group: KeptBack(known.get(one.channels, burners), one.by_tenants, one.is_raised) for group, one in back.items()
    }


def used_by_others(used: Mapping[tuple[Channels, Cpus], float], mine: Channels) -> dict[Cpus, float]:
    """Sum up, by where, the CPUs that components use which have no channel in common with these."""
    sums: defaultdict[Cpus, float] = defaultdict(float)
    for (channels, cpus), cores in used.items():
        if set(channels).isdisjoint(mine):
            sums[cpus] += cores
    return sums


def beside(load: HostLoad, more: float, least: float) -> HostLoad:
    """Count more of what is used as foreign work, and so much at the least."""

    def mixed(one: HostLoad) -> HostLoad:
        return replace(one, foreign=min(1.0 - one.idle, max(least, one.foreign + more)))

    return replace(mixed(load), lasting=load.lasting and mixed(load.lasting), pinned={})
