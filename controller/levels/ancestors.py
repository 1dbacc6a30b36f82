"""Groups above components: each is raised by the odds at its own level, step by step, and let go of when there is room.

A group above a component holds more than the component: other interferers, perhaps half of the host. To raise it by the
component's own factor would give all of these the same, and would starve what runs beside it, the kernel's own threads
at the outermost level among it. What the component waits for at that level is but a part of its waiting: as much of it
as the foreign work at that level is of all that keeps the CPUs busy. So every such group has a law ``adaptive`` of its
own that sees this part alone. It raises until little is waited for there, holds, tries a little less now and then, and
goes back when there is room, as it does for components. What components ask for is the most that a group may get.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from qioi.controller.guard.guard import Guard
from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Seen
from qioi.controller.levels.placement import allowed
from qioi.controller.levels.steps import Steps
from qioi.controller.levels.wants import Want
from qioi.kernel.errors import CgroupError
from qioi.model import MAX_SHARES, Bounds, DelayReading, HostLoad


@dataclass(frozen=True, slots=True)
class Ask:
    """What is known of one group: shares in v1 units, as found, in force, and as the components in it ask for at most.

    ``foreign`` is the CPUs that others used beside the group, ``delay`` what the asking components did together;
    either is ``None`` where it is not known. ``pinned`` is the load of the fullest CPUs that one is pinned to.
    ``idle``: nobody sends to any of the asking components.
    """

    found: int
    share: int
    most: int
    foreign: float | None
    delay: DelayReading | None
    pinned: HostLoad | None = None
    idle: bool = False


class Ancestors:
    """The laws of all groups above components that are acted at."""

    def __init__(self) -> None:
        self._laws: dict[str, Adaptive] = {}

    def step(self, now: float, asks: Mapping[str, Ask], host: HostLoad | None, cpus: int) -> dict[str, int]:
        """Take one period in; give the most that each group is to have. Groups that are not named are forgotten."""
        laws: dict[str, Adaptive] = {}
        most: dict[str, int] = {}
        for group, ask in asks.items():
            law = self._laws.get(group)
            if ask.foreign is None or ask.delay is None or host is None:
                most[group] = max(ask.found, min(ask.share, ask.most))  # its level is not known: what is in force stays
                if law is not None:
                    laws[group] = law
                continue
            if law is None or law.default != ask.found:
                law = begin(ask)
            age = math.inf if ask.idle else 0.0
            law, verdict = law.step(Seen(now, commit_age=age, delay=ask.delay, host=load_at(ask, host, cpus)))
            most[group] = min(verdict.shares, max(ask.found, ask.most))
            laws[group] = law.limited(most[group], ask.share)  # where nobody asks for more, it must not wind up
        self._laws = laws
        return most


def load_at(ask: Ask, host: HostLoad, cpus: int) -> HostLoad:
    """Give the load that counts for one group: foreign is what runs beside it, or on the CPUs that it is pinned to."""
    if ask.pinned is not None:
        return replace(ask.pinned, sudden=host.sudden)
    foreign = min(1.0, (ask.foreign or 0.0) / cpus)
    lasting = host.lasting and HostLoad(host.lasting.idle, foreign)
    return HostLoad(host.idle, foreign, lasting, host.sudden)


def begin(ask: Ask) -> Adaptive:
    """Make the law of a group; one that is raised already, by a daemon before this one, goes on from there."""
    return Adaptive.start(ask.found, Bounds(ask.found, MAX_SHARES)).at(ask.share)


def together(delays: Iterable[DelayReading]) -> DelayReading | None:
    """Sum the delay readings of several components over the same period."""
    known = tuple(delays)
    if not known:
        return None
    return DelayReading(
        "",
        sum(one.run for one in known),
        sum(one.wait for one in known),
        sum(one.slices for one in known),
        max(one.interval for one in known),
    )


class Ancestry:
    """Limits wants for groups above components.

    Those of Algorithm 1 are not limited. Against tenants a group is raised in small steps, and by no law.
    """

    def __init__(self, guard: Guard, literal: Callable[[str | None], bool]) -> None:
        """Begin; ``literal`` says whether a channel's law is Algorithm 1."""
        self._guard = guard
        self._literal = literal
        self._laws = Ancestors()
        self._steps = Steps()

    def apply(
        self,
        now: float,
        wants: tuple[Want, ...],
        delays: Mapping[str, DelayReading],
        host: HostLoad | None,
        idle: Container[str] = (),
    ) -> tuple[Want, ...]:
        """Give the wants with the most that each group above components may have.

        To components that are ``idle`` nobody sends.
        """
        behind: dict[str, list[Want]] = {}
        against: dict[str, list[Want]] = {}
        files = [want for want in wants if want.request is None]  # the kubelet sets a pod's groups by its request
        literal = set(filter(self._literal, {want.decision.channel for want in files}))
        to_the_letter = {
            group
            for want in files
            if want.decision.channel in literal and self._is_raised(want)
            for group in above(want)
        }
        for want in files:
            for group in above(want):
                if group not in to_the_letter and self._guard.holds(group):
                    by_steps = group in want.placement.against_tenants and not want.shown
                    (against if by_steps else behind).setdefault(group, []).append(want)
        pinned = host.pinned if host is not None else {}
        asks = self._asks(behind, delays, pinned, idle)
        limits = self._laws.step(now, asks, host, os.cpu_count() or 1)
        for group, most in self._by_steps(now, against).items():
            limits[group] = max(limits.get(group, 0), most)
        if not limits or all(want.decision.shares <= self._guard.found(want.cgroup) for want in files):
            return wants  # a limit is never below what the group was found with
        places = {want.placement.groups for want in files}  # few: most components have theirs in common
        at = {groups: {group: limits[group] for group in groups if group in limits} for groups in places}
        return tuple(self._under(want, at[want.placement.groups]) if want.request is None else want for want in wants)

    def _is_raised(self, want: Want) -> bool:
        return not want.shown and want.decision.shares > self._guard.found(want.cgroup)

    def _by_steps(self, now: float, against: Mapping[str, list[Want]]) -> dict[str, int]:
        """Give the most that groups are to have against tenants: a step more, or what they have."""
        self._steps.begin(now)
        limits = {}
        for group, wants in against.items():
            found = self._guard.found(group)
            asked = round(found * max(want.decision.shares / self._guard.found(want.cgroup) for want in wants))
            most = found
            with suppress(CgroupError):
                most = self._guard.last(group)
                if any(want.placement.is_raised for want in wants):
                    most = self._steps.up(group, most)
                    self._steps.answer([(group, asked)])
            limits[group] = max(found, min(asked, most))
        return limits

    def _asks(
        self,
        behind: Mapping[str, list[Want]],
        delays: Mapping[str, DelayReading],
        pinned: Mapping[str, HostLoad],
        idle: Container[str],
    ) -> dict[str, Ask]:
        asks = {}
        for group, wants in behind.items():
            found = self._guard.found(group)
            try:
                share = self._guard.last(group)
            except CgroupError:
                continue
            names = [want.decision.component for want in wants]
            factor = max(want.decision.shares / self._guard.found(want.cgroup) for want in wants)
            asks[group] = Ask(
                found,
                share,
                min(MAX_SHARES, round(found * factor)),
                most_beside(group, wants),
                together(delays[name] for name in names if name in delays),
                min((pinned[name] for name in names if name in pinned), key=lambda one: one.idle, default=None),
                all(name in idle for name in names),
            )
        return asks

    def _under(self, want: Want, mine: Mapping[str, int]) -> Want:
        """Give a want with its limits; if no level gives all that was asked for, reduce it to what a level gives."""
        if not mine:
            return want
        decision, found = want.decision, self._guard.found(want.cgroup)
        if len(mine) == len(want.placement.groups) and want.cgroup not in mine:
            most = max(found, *(round(limit * found / self._guard.found(group)) for group, limit in mine.items()))
            if most < decision.shares:
                names = " and ".join(mine)
                reason = f"{decision.reason}; {names} by the waiting at its own level: {most} of {decision.shares}"
                decision = replace(decision, shares=most, reason=reason)
        return replace(want, decision=decision, limits=mine)


def above(want: Want) -> Iterator[str]:
    """Give the groups above a component at which it is acted."""
    return (group for group in want.placement.groups if group != want.cgroup)


def most_beside(group: str, wants: Iterable[Want]) -> float | None:
    """Give what is used beside a group: by foreign work, and by what keeps the components in it back."""
    first, *others = wants
    kept_back = [one for one in others if one.placement.kept_back]  # beside all others it is the same
    known = [cores for one in (first, *kept_back) if (cores := foreign_beside(group, one)) is not None]
    return max(known, default=None)


def foreign_beside(group: str, want: Want) -> float | None:
    """Sum up the foreign work that a group is acted at for: at its own level, and at those that it stands in for."""
    levels = [one.foreign for one in want.placement.levels if allowed(one.group, want.cgroup) == group]
    known = [foreign for foreign in levels if foreign is not None]
    return sum(known) if known else None
