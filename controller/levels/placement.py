"""The level that matters: at which of its ancestors a component meets the foreign work that it waits for.

A weight counts among siblings only. Where interferers run outside of Docker, in another slice or in another pod, the
competition is not between the component's own group and theirs, but between the ancestors at which the two part:
raising the component there helps, raising it in its own group does nothing. So every parent on the way up is asked how
much CPU was used below it by anybody but the components: what it used, less what those of its children used in which
there are components. A level at which that is much is acted at. One at which a group is raised stays one until it is
back, since raising it takes CPU from just the foreigners that have shown the level (ancestors.py lets go of it).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.laws.need import weight
from qioi.model.groups import branches, chain, parent_of

#: Foreign work at one level, as a part of the host's CPUs, below which it is left out; and as a part of the most.
LEAST = 0.04
#: Foreign work in CPUs that shows a level on any host: on one of many CPUs it may be all beside a pinned component.
MUCH = 0.5
PART = 0.5
#: Time constants of two filters in s, of which the larger counts: what runs for a moment, a cron job or a login, shows
#: no level; a neighbour that stays shows its level within a second, and for some seconds after it ended.
SMOOTH, PROMPT = 5.0, 1.0
#: Groups whose values the kubelet rewrites (Kubernetes: kubelet, QoS cgroups), by either of its drivers.
REWRITTEN = re.compile(
    r"(^|[/-])kubepods(\.slice)?$|kubepods/(burstable|besteffort)$|kubepods-(burstable|besteffort)\.slice$"
)
#: Why a component is acted at levels at which nothing foreign is left.
STILL = "no foreign work is left beside it: where it was raised"


class Level(Struct, frozen=True):
    """One group on the way up, and the CPUs that foreign work beside it used; ``None`` if unknown."""

    group: str
    foreign: float | None


class KeptBack(NamedTuple):
    """By whom a component is kept back: the groups of other components, which count as foreign work beside its levels.

    ``by_tenants``: by other channels alone, against which it is raised in small steps; ``is_raised``: now.
    """

    rivals: frozenset[str]
    by_tenants: bool = False
    is_raised: bool = False


NOBODY: Mapping[str, KeptBack] = {}


class Placement(Struct, frozen=True):
    """Where one component is acted at, from the inside out, why, and all its levels.

    Where it is ``kept_back`` by others of the ledger, these count as foreign. At ``against_tenants`` it is raised in
    small steps; whether now, ``is_raised`` says.
    """

    groups: tuple[str, ...]
    why: str
    levels: tuple[Level, ...] = ()
    kept_back: bool = False
    against_tenants: tuple[str, ...] = ()
    is_raised: bool = False


class Levels:
    """All components' placements. Paths are below the CPU controller's mount, whose own is empty."""

    def __init__(self) -> None:
        self._smooth: dict[str, float] = {}
        self._prompt: dict[str, float] = {}
        self._foreign: dict[str, float] = {}
        self._at: float | None = None
        self._groups: tuple[str, ...] = ()
        self._parents: tuple[str, ...] = ()
        self._branches: Mapping[str, Set[str]] = {}

    def branches(self, groups: tuple[str, ...]) -> Mapping[str, Set[str]]:
        """Give :func:`branches` of these groups, computed again only if they differ from the last call."""
        if groups != self._groups:
            self._groups, self._branches = groups, branches(groups)
            self._parents = tuple(parent_of(group) for group in groups)
        return self._branches

    def step(
        self,
        now: float,
        groups: Iterable[str],
        used: Mapping[str, float],
        cpus: int,
        raised: Collection[str],
        kept_back: Mapping[str, KeptBack] = NOBODY,
    ) -> dict[str, Placement]:
        """Take one period in; give every component's placement, by its group.

        ``used`` is in CPUs, of the components' groups and of those above them; ``raised`` are the groups, at whatever
        level, that have more than they were found with now; ``kept_back`` are those of components that others of the
        ledger keep back.
        """
        groups = tuple(groups)
        passed = math.inf if self._at is None else max(0.0, now - self._at)
        self._at = now
        below = self.branches(groups)
        known = foreign_by_parent(below, used)
        # Where a component is new, and what it uses not known yet, what was there before is taken to be there still.
        still = below.keys() & used.keys()
        self._smooth = smoothed(self._smooth, known, weight(passed, SMOOTH), still)
        self._prompt = smoothed(self._prompt, known, weight(passed, PROMPT), still)
        self._foreign = {parent: max(cores, self._prompt[parent]) for parent, cores in self._smooth.items()}
        above = {
            parent: tuple(Level(level, self._foreign.get(parent_of(level))) for level in chain(parent) if level)
            for parent in set(self._parents)
        }
        found = {parent: alike(self._foreign.get(parent), levels, cpus, raised) for parent, levels in above.items()}
        placed = {
            group: Placement(one[0] or (group,), one[1], (Level(group, self._foreign.get(parent)), *above[parent]))
            if (one := found[parent]) is not None and group not in raised
            else place((Level(group, self._foreign.get(parent)), *above[parent]), cpus, raised)
            for group, parent in zip(groups, self._parents, strict=True)
        }
        # One that others lie in uses what they do, too.
        sums = {one.rivals: sums_of(one.rivals - below.keys(), used) for one in set(kept_back.values())}
        for group in kept_back.keys() & placed.keys():
            by, before = kept_back[group], placed[group].levels
            its = place(tuple(met(before, sums[by.rivals])), cpus, raised, "work of others")
            placed[group] = replace(its, kept_back=True, is_raised=by.is_raised)
            if by.by_tenants:
                shown = {allowed(level.group, group) for level in its.levels if level not in before}
                at = tuple(level for level in its.groups if level in shown or level in raised)
                placed[group] = replace(placed[group], against_tenants=at)
        return placed


def sums_of(groups: Set[str], used: Mapping[str, float]) -> Mapping[str, float]:
    """Sum up the CPUs that these use: below each group above them, and each in its own."""
    sums: defaultdict[str, float] = defaultdict(float)
    for group in groups:
        for level in (*chain(group), ""):
            sums[level] += used.get(group, 0.0)
    return sums


def met(levels: Iterable[Level], rivals: Mapping[str, float]) -> Iterator[Level]:
    """Count what rivals use as foreign work beside each level; ``rivals`` are their sums."""
    for level in levels:
        more = rivals.get(parent_of(level.group), 0.0) - rivals.get(level.group, 0.0)
        yield Level(level.group, (level.foreign or 0.0) + more) if more else level


def smoothed(
    before: Mapping[str, float], now: Mapping[str, float], part: float, still: Collection[str]
) -> dict[str, float]:
    """Move what is known towards what is now by a part of the way; what is new is taken as it is.

    ``still`` are those that go on with what was known where nothing is known now.
    """
    kept = {parent: cores for parent, cores in before.items() if parent in still}
    return kept | {
        parent: kept.get(parent, cores) + part * (cores - kept.get(parent, cores)) for parent, cores in now.items()
    }


def foreign_by_parent(branches: Mapping[str, Set[str]], used: Mapping[str, float]) -> dict[str, float]:
    """Give the CPUs used by foreign work below each parent; parents of which that is unknown are missing."""
    return {
        parent: max(0.0, used[parent] - sum(map(used.__getitem__, children)))
        for parent, children in branches.items()
        if parent in used and used.keys() >= children
    }


def alike(
    beside: float | None, above: tuple[Level, ...], cpus: int, raised: Collection[str]
) -> tuple[tuple[str, ...], str] | None:
    """Say for all children of a group at once what :func:`place` says of each that is not raised: where, and why.

    Without groups each is acted at its own. ``None``: it is not the same for all of them.
    """
    levels = (Level("", beside), *above)
    busy = busy_ones(levels, cpus)
    if not busy:
        held = tuple(level.group for level in above if level.group in raised)
        return held, STILL if held else without(levels)
    if levels[0] in busy or any(REWRITTEN.search(level.group) for level in busy):
        return None
    ordered = tuple(level.group for level in above if level in busy or level.group in raised)
    return ordered, "; ".join(said(busy, ""))


def busy_ones(levels: Iterable[Level], cpus: int) -> list[Level]:
    """Choose the levels with foreign work; levels with little of it, or little beside the most, are left out."""
    most = max(level.foreign or 0.0 for level in levels)
    least = max(min(LEAST * cpus, MUCH), PART * most)
    return [level for level in levels if (level.foreign or 0.0) >= least]


def place(levels: tuple[Level, ...], cpus: int, raised: Collection[str], work: str = "foreign work") -> Placement:
    """Choose among the levels of one component, of which the first one is its own group; ``work`` is beside them."""
    group = levels[0].group
    busy = busy_ones(levels, cpus)
    held = [level.group for level in levels if level.group in raised]
    if not busy:
        return Placement(tuple(held) or (group,), STILL if held else without(levels), levels)
    chosen = [allowed(level.group, group) for level in busy]
    ordered = tuple(level.group for level in levels if level.group in chosen or level.group in held)
    return Placement(ordered, "; ".join(said(busy, group, work)), levels)


def without(levels: Iterable[Level]) -> str:
    """Say why a component is acted on at its own group: no foreign work tells a level."""
    unknown = all(level.foreign is None for level in levels)
    return "where foreign work runs is not known" if unknown else "no foreign work"


def allowed(level: str, group: str) -> str:
    """Give the level itself or, if the kubelet would rewrite it, the next one inside."""
    if not REWRITTEN.search(level):
        return level
    inside = [one for one in chain(group) if len(one) > len(level) and not REWRITTEN.search(one)]
    return inside[-1] if inside else level


def said(busy: Iterable[Level], group: str, work: str = "foreign work") -> Iterator[str]:
    """Say for each level why it counts."""
    for level in busy:
        text = f"{work} of {level.foreign or 0.0:.1f} CPUs beside {level.group}"
        instead = allowed(level.group, group)
        if instead != level.group:
            text += f", which the kubelet rewrites: {instead} is acted at instead, and counts less"
        yield text
