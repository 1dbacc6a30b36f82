"""Components of the ledger that compete with each other: tenants of which one has more than it is owed, and burners.

What they use is foreign work for those that they keep back, so that ``adaptive`` raises these against them as against
any neighbour. It counts as far as both may run on the same CPUs. On a full host without foreign work, a channel with a
number for T that is below it is raised against the channels that have theirs: in small steps, until it has its T or the
others are down to theirs. It keeps what it has until there is room that lasts, since to let go of it would begin all of
it again, or until a channel beside it does far worse than it does.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.findings.tenants import Tenants, tenants_of
from qioi.controller.laws.need import FOREIGN, IDLE
from qioi.controller.laws.room import ROOM_FOR
from qioi.controller.levels.placement import KeptBack
from qioi.controller.levels.steps import Steps
from qioi.controller.levels.wants import InForce, Want
from qioi.controller.period import Period
from qioi.model import Component, HostLoad, Role
from qioi.model.groups import chain

Channels = tuple[str, ...]
Cpus = frozenset[int]

#: The CPUs of what may run on all, or of what nobody has asked.
ANYWHERE: Cpus = frozenset()


TENANT = "another channel has more than it is owed, and this one less"
EASED = "another channel lacks more of what it is owed, and this one was raised against others"
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

    def __init__(self, rest: Callable[[str, int], int], cpus: int | None = None) -> None:
        """Begin; ``rest`` gives a channel's default for a share found."""
        self._rest = rest
        self._cpus = cpus or os.cpu_count() or 1
        #: Those that are held, and when the CPUs that each may run on were last full.
        self._held: dict[str, float] = {}
        self._steps = Steps()
        self._components: tuple[Component, ...] = ()
        self._outer: dict[str, str] = {}

    def step(self, period: Period, burning: Collection[str], presumed: Container[str] = ()) -> Rivals:
        """Take one period in; ``burning`` names the components that burn.

        ``presumed`` names channels that make no commits, but are taken to be sent to.
        """
        self._steps.begin()
        tenants = tenants_of(period, presumed)
        if period.host is None or not (tenants.below or burning or self._held):
            return Rivals()
        parts = self._parts(period)
        used, burnt = uses(period, own_cores(period, self._outer), tenants, burning)
        others = cache(lambda channels: used_by_others(used, channels))
        eased = cache(lambda channels, cpus: self._eased(period, tenants, channels, cpus))
        loads, back = {}, {}
        raised: list[Component] = []
        limits: dict[str, Limit] = {}
        for one in parts:
            load = period.host.of(one.name)
            if self._has_room(period.now, one.name, load):
                if one.name in self._held:
                    loads[one.name] = beside(load, 0.0, FOREIGN)
                continue
            # Where the load of its own CPUs is not known, the host's counts, and of others what they use of that.
            cpus = period.cpus.get(one.name, ANYWHERE) if one.name in period.host.pinned else ANYWHERE
            alone = load.foreign < FOREIGN
            lacks = alone and not tenants.below.isdisjoint(one.channels)
            given = self._part(others(one.channels), cpus) if lacks else 0.0
            more = given + (0.0 if one.name in burning else self._part(burnt, cpus))
            less = eased(one.channels, cpus) if lacks else {}
            if given:
                self._held[one.name] = period.now
                raised.append(one)
            limits |= less
            if more or one.name in self._held:
                loads[one.name] = beside(load, more, FOREIGN if one.name in self._held else 0.0)
                by_tenants = alone and more == given and one.name in self._held
                back[one.cgroup] = Back(one.channels if given else (), by_tenants, bool(given) and not less)
        for one in raised:
            if one.name not in limits and (force := period.forces.get(one.name)) is not None:
                limits[one.name] = self._against(one.name, force, back[one.cgroup].is_raised)
        return Rivals(loads, limits, by_whom(period, back, tenants, burning))

    def answer(self, wants: Iterable[Want]) -> None:
        """Take in what was asked for in this period, within the limits."""
        self._steps.answer((want.decision.component, want.decision.shares) for want in wants)

    def _parts(self, period: Period) -> list[Component]:
        """Give the components that others may keep back; let go of those that are gone."""
        if period.components is not self._components:
            self._components, self._outer = period.components, outer_ones(period.components)
        parts = [one for one in period.components if one.role is not Role.CLIENT and one.name in period.delays]
        names = {one.name for one in parts}
        self._held = {name: full for name, full in self._held.items() if name in names}
        return parts

    def _against(self, name: str, force: InForce, is_raised: bool) -> Limit:
        """Limit what one gets against tenants to a step more, or while others go back first to what it has."""
        most = force.share
        if is_raised and force.placement.kept_back:  # at which level they meet is known one period later
            most = self._steps.up(name, most)
        return Limit(Reason.TENANT, TENANT, most)

    def _eased(self, period: Period, tenants: Tenants, channels: Channels, cpus: Cpus) -> dict[str, Limit]:
        """Limit those to a step less that were raised against tenants and do better than channels beside them.

        Otherwise two that have theirs by turns would raise each other to the ceiling, and one that cannot have its own
        would keep the others from theirs for good.
        """
        return {
            one.name: Limit(Reason.TENANT, EASED, self._steps.down(one.name, force.share))
            for one in period.components
            if one.name in self._held and (tenants.is_rival(one, channels) or tenants.is_better_off(one, channels))
            if meet(cpus, period.cpus.get(one.name, ANYWHERE))
            if (force := period.forces.get(one.name)) is not None and self._is_raised(one, force)
        }

    def _is_raised(self, one: Component, force: InForce) -> bool:
        """Whether one has more than it rests at, by what is decided here."""
        if force.foreign or force.taken or force.problem:
            return False
        return force.share > max(self._rest(channel, force.original) for channel in one.channels)

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
        elif one.channels and tenants.have_theirs(one.channels):
            used[one.channels, cpus] += cores[one.name]
    return used, burnt


def meet(mine: Cpus, theirs: Cpus) -> bool:
    """Whether two may run on the same CPUs."""
    return not mine or not theirs or not mine.isdisjoint(theirs)


def by_whom(period: Period, back: Mapping[str, Back], tenants: Tenants, burning: Container[str]) -> dict[str, KeptBack]:
    """Say by whom each group in ``back`` is kept back: by those who burn, or have what they are owed."""
    parts = [one for one in period.components if one.role is not Role.CLIENT]
    burners = frozenset(one.cgroup for one in parts if one.name in burning)
    known: dict[Channels, frozenset[str]] = {(): burners}
    for channels in list({one.channels for one in back.values()})[:MOST_SETS]:
        if channels:
            known[channels] = burners.union(one.cgroup for one in parts if tenants.is_rival(one, channels))
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
