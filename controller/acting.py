"""Turns decisions about components into values of control groups, and these back into the share in force.

A component's share stands to the one it was found with as the value of each group that it is acted at stands to that
group's original. A group that several components are acted at gets the most that any of them needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import NamedTuple

from msgspec.structs import replace

from qioi.controller.announce import Said, news
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.restore import Outcome, Result
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce, Top, Want, groups_of, is_made, top_of
from qioi.controller.other_lever import NO_OTHER_LEVER, OtherLever
from qioi.controller.slicing import SliceState
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.model import Component, Decision, Owner
from qioi.model.groups import chain
from qioi.model.names import few

log = logging.getLogger("qioi")


class Change(NamedTuple):
    """A decision that was carried out, and the share in v1 units that it has led to."""

    decision: Decision
    share: int


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of a period's decisions, by component.

    ``shares`` are those in force after it, ``problems`` what failed, ``notes`` what is to be said beside the reason.
    ``decided`` counts decisions that asked for another share than the one in force; ``moved`` says that something was
    written, ``made`` what. Groups of ``lost`` components are gone; those of ``released`` ones were put back, as all
    their policies are dry runs. ``slices`` and ``idle`` are ``None`` where nobody was asked.
    """

    shares: Mapping[str, int] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    decided: int = 0
    moved: bool = False
    made: tuple[Change, ...] = ()
    lost: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    slices: SliceState | None = None
    idle: tuple[str, ...] | None = None


class Actor:
    """Carries out decisions through the guard and the other lever."""

    def __init__(self, guard: Guard, count: Callable[[Outcome], None], other: OtherLever = NO_OTHER_LEVER) -> None:
        """Begin; ``count`` is told of every write, ``other`` moves what groups' files do not."""
        self.guard = self._guard = guard
        self._tell_of = count
        self._other = other
        self._written = 0
        #: The owners of groups above components, by group, where they are known.
        self.owners: Mapping[str, Owner] = {}
        self._above: set[str] = set()  # groups above components that were acted at, and are not put back yet
        self._left: dict[str, str] = {}  # groups to be put back that others left, and whose they are, for the log
        self._stuck: set[str] = set()  # groups that could not be put back, and that was said
        self._looked_at: set[str] = set()  # groups above components, and of components that left, that are held
        self._news: dict[str, Said | None] = {}
        self._orders: SimpleQueue[str] = SimpleQueue()

    def take_up(self, component: str) -> None:
        """Have a component's groups taken up again that somebody else has changed, in the next period, from any thread.

        What they have then is their original.
        """
        self._orders.put(component)

    def _ordered(self) -> set[str]:
        """Name the components that are to be taken up again."""
        names = set()
        while not self._orders.empty():
            names.add(self._orders.get())
        return names

    def _take_up(self, groups: Iterable[str]) -> bool:
        """Take up again those of the groups that somebody else has changed; say whether there are any."""
        foreign = [group for group in groups if self._guard.is_foreign(group)]
        for group in foreign:
            self._guard.take_up(group)
            log.info("%s: taken up again: what it was found with is %d now", group, self._guard.found(group))
        return bool(foreign)

    def go_on(self, above: Iterable[str]) -> None:
        """Take over groups above components that the previous daemon left raised on purpose."""
        self._above |= set(above)

    def adopt(self, owners: Mapping[str, Owner]) -> None:
        """Go on with other owners of groups above components, by group."""
        self.owners = owners

    def raised(self) -> frozenset[str]:
        """Name the groups that have more than they were found with."""
        return self._guard.raised()

    def look_at(
        self, components: Iterable[Component], placements: Mapping[str, Placement]
    ) -> tuple[dict[str, InForce], dict[str, str], tuple[str, ...]]:
        """Read what is in force for every component, at the level that counts.

        Give the shares, why those that are missing can't be read, and of whom that is because the group was removed.
        """
        forces: dict[str, InForce] = {}
        absent: dict[str, str] = {}
        gone = []
        above: dict[str, str | None] = {}  # most components have these in common
        own = set()
        ordered = self._ordered()
        for one in components:
            own.add(one.cgroup)
            placement = placements.get(one.cgroup) or Placement((one.cgroup,), "not looked at yet")
            try:
                groups = chain(one.cgroup) if one.name in ordered else ()
                taken_up = self._take_up(groups)
                force = self._other.in_force(one, self.look(one.cgroup, one.owner, placement, above))
                forces[one.name] = replace(force, taken_up=True) if taken_up else force
            except CgroupGoneError as error:
                absent[one.name] = str(error)
                gone.append(one.name)
                self.let_go(one.cgroup)
            except CgroupError as error:
                absent[one.name] = str(error)
        self.leave(above, own)
        return forces, absent, tuple(gone)

    def look(self, cgroup: str, owner: Owner | None, placement: Placement, above: dict[str, str | None]) -> InForce:
        """Read what is in force for a component. CgroupError: its own group can't be read.

        ``above`` collects what is wrong, if anything, with each group above components that was looked at already.
        """
        guard = self._guard
        share = guard.look(cgroup, owner)
        if placement.groups == (cgroup,) and not guard.is_foreign(cgroup):  # the usual case, made short
            found = guard.found(cgroup)
            foreign = share > found and guard.is_set_by_others(cgroup)
            return InForce(share, found, placement, foreign=foreign)
        problems = []
        for group in placement.groups:
            if group != cgroup:
                if group not in above:
                    above[group] = self._look_above(group)
                if (problem := above[group]) is not None:
                    problems.append(problem)
        whose = [group for group in dict.fromkeys((cgroup, *placement.groups)) if guard.is_foreign(group)]
        if whose:
            names = "its" if whose[0] == cgroup else f"{whose[0]}'s"
            pause = guard.pause(whose[0])
            problems.append(
                f"somebody else has changed {names} share: left alone"
                if pause is None
                else f"somebody else has put {names} original back: left alone for {pause:g} s"
            )
        taken = tuple(group for group in whose if guard.pause(group) is None)
        share = top_of(guard, cgroup, placement).share
        foreign = any(map(guard.is_set_by_others, (cgroup, *placement.groups)))
        return InForce(share, guard.found(cgroup), placement, "; ".join(problems) or None, taken, foreign=foreign)

    def leave(self, above: Iterable[str], own: Collection[str]) -> None:
        """Release groups that are no longer looked at: above components, or of components that left.

        ``above`` are those that are, ``own`` components' own groups, which may have others' below them.
        """
        self._looked_at |= set(above)
        gone = self._looked_at.difference(above, self._above)
        self._looked_at -= {group for group in gone if group not in own and self._guard.leave(group)}

    def _look_above(self, group: str) -> str | None:
        try:
            self._guard.look(group, self.owners.get(group))
        except CgroupError as error:
            return f"cannot act at {group}: {error}"
        return None

    def count_changes(self, wants: Iterable[Want]) -> int:
        """Count the decisions that change a share, after rounding to the kernel's unit."""
        return sum(want.decision.changes and self._differs(want) for want in wants)

    def _differs(self, want: Want) -> bool:
        group, decision, guard = want.cgroup, want.decision, self._guard
        return not guard.is_same(group, decision.previous, decision.shares) and not guard.is_foreign(group)

    def ours(self, wants: Iterable[Want]) -> list[Decision]:
        """Give the decisions about groups that nobody else has changed."""
        return [want.decision for want in wants if not self._guard.is_foreign(want.cgroup)]

    def act(self, wants: Collection[Want]) -> Outcomes:
        """Carry out decisions through all levers. Components of which they are only shown are restored."""
        before = self._written
        wet = [want for want in wants if not want.shown]
        taken = self._other.take([want.decision for want in wet])
        for group in taken.release:
            self.put_back(group, group)
        released = self._dry_out([want for want in wants if want.shown])
        ours = [want for want in wet if want.decision.component not in taken.components]
        decided = self.count_changes(ours)
        tops, problems = self._write(ours)
        made = [Change(one.decision, one.decision.shares) for one in wet if one.decision.component in taken.made]
        made += [
            Change(want.decision, top.share)
            for want in ours
            if (top := tops.get(want.decision.component)) is not None and is_made(self._guard, want, top)
        ]
        return Outcomes(
            {name: top.share for name, top in tops.items()},
            problems,
            taken.notes,
            decided,
            self._written != before,
            tuple(change for change in made if change.decision.changes),
            tuple(
                want.decision.component
                for want in ours
                if want.decision.component in problems and not self._guard.holds(want.cgroup)
            ),
            released,
        )

    def _dry_out(self, wants: Collection[Want]) -> tuple[str, ...]:
        """Restore components whose policies are all dry runs; name those that were restored."""
        changed = self._guard.changed() if wants else ()
        names = [(want.decision.component, want.cgroup) for want in wants if want.cgroup in changed]
        return tuple(name for name, cgroup in names if self._restore(name, cgroup))

    def _write(self, wants: Iterable[Want]) -> tuple[dict[str, Top], dict[str, str]]:
        """Write values that differ; give what is in force and the problems afterwards, by component."""
        wants = tuple(wants)
        for want in wants:
            if self._left.pop(want.cgroup, None) is not None:
                self._stuck.discard(want.cgroup)
        wants = self._unfulfilled(wants)
        targets, behind = self._targets(wants)
        self._put_back((self._above | self._left.keys()) - targets.keys())
        problems: dict[str, str] = {}
        changes = self._changes(targets)
        previous = {group: self._last(group) for group in changes}
        for outcome in self._guard.apply(changes):
            self._count(outcome)
            if outcome.result is Result.OK:
                self._tell(outcome, previous[outcome.path], behind[outcome.path])
            elif outcome.result is not Result.SKIPPED:
                problems |= {want.decision.component: outcome.message for want in behind[outcome.path]}
                if outcome.result is Result.GONE:
                    self.let_go(outcome.path)
        tops = {}
        for want in wants:
            try:
                tops[want.decision.component] = top_of(self._guard, want.cgroup, want.placement)
            except (CgroupError, KeyError):  # it went meanwhile: the next look says so
                continue
        return tops, problems

    def _unfulfilled(self, wants: tuple[Want, ...]) -> list[Want]:
        """Leave out wants that are fulfilled, except those for a group that other wants name too."""
        standing = [self._stands(want) for want in wants]
        asked = (want.placement.groups for want, stands in zip(wants, standing, strict=True) if not stands)
        shared = self._above.union(*asked)  # one component's own group may be above another one's
        return [want for want, stands in zip(wants, standing, strict=True) if not stands or want.cgroup in shared]

    def _stands(self, want: Want) -> bool:
        """Whether a want is fulfilled: its own group, or all groups that it names if it asks for no raise."""
        guard, group, shares = self._guard, want.cgroup, want.decision.shares
        try:
            if want.placement.groups == (group,):
                return guard.is_same(group, guard.last(group), shares)
            return shares == guard.found(group) == guard.last(group) and all(
                guard.last(one) == guard.found(one) for one in want.placement.groups if guard.holds(one)
            )
        except CgroupError:
            return False  # the guard finds out again, and says it

    def _targets(self, wants: Iterable[Want]) -> tuple[dict[str, int], dict[str, list[Want]]]:
        """Give every group's value in v1 units, and the wants behind it, the largest first."""
        guard = self._guard
        targets: dict[str, int] = {}
        behind: dict[str, list[Want]] = {}
        for want in wants:
            for group, value in groups_of(guard, want, want.decision.shares):
                if group != want.cgroup:
                    self._above.add(group)
                if value > targets.get(group, 0):
                    targets[group] = value
                    behind.setdefault(group, []).insert(0, want)
                else:
                    behind[group].append(want)
        return targets, behind

    def _changes(self, targets: Mapping[str, int]) -> dict[str, int]:
        """Leave out values that are in force, and foreign groups."""
        changes = {}
        for group, value in targets.items():
            if self._guard.is_foreign(group):
                continue
            last = self._last(group)
            if last is None or not self._guard.is_same(group, last, value):
                changes[group] = value  # where it can't be read, the guard finds out again, and says it
        return changes

    def _last(self, group: str) -> int | None:
        """Give the share that a group has; ``None`` where it can't be read."""
        try:
            return self._guard.last(group)
        except CgroupError:
            return None

    def _count(self, outcome: Outcome) -> None:
        self._written += outcome.result is Result.OK
        self._tell_of(outcome)

    def put_back(self, name: str, cgroup: str) -> None:
        """Restore the group of a component that left or that no policy covers; try on in later periods if it fails."""
        if not self._restore(name, cgroup):
            self._left[cgroup] = name

    def _put_back(self, groups: Iterable[str]) -> None:
        """Restore groups above components at which no component is acted on, and what could not be restored before."""
        for group in sorted(groups):
            if self._restore(self._left.get(group, group), group):
                self._forget(group)

    def _restore(self, name: str, group: str) -> bool:
        """Restore a group and log the outcome, a repeated failure only once; return whether it is restored."""
        outcome = self.release(group)
        failed = outcome is not None and outcome.result is Result.FAILED
        if outcome is not None:
            self._count(outcome)
            if not (failed and group in self._stuck):
                level = logging.WARNING if failed else logging.INFO
                log.log(level, "%s: let go: %s: %s", name, outcome.result, outcome.message)
        (self._stuck.add if failed else self._stuck.discard)(group)
        return not failed

    def _tell(self, outcome: Outcome, previous: int | None, behind: list[Want]) -> None:
        """Log a change of a group's value: at INFO if it is news, else at DEBUG."""
        first, shares = behind[0].decision, self._guard.last(outcome.path)
        said, found = self._news.get(outcome.path), self._guard.found(outcome.path)
        self._news[outcome.path], what = news(said, found, shares)
        level, what = (logging.INFO, what) if what else (logging.DEBUG, "moved")
        who = first.component
        if outcome.path != behind[0].cgroup:
            who = f"{outcome.path} (for {few(want.decision.component for want in behind)})"
        log.log(level, "%s: %s: %s -> %s: %s", who, what, previous, shares, first.reason)

    def release(self, cgroup: str) -> Outcome | None:
        """Restore a component's own group and stop holding it, unless somebody else has set its share."""
        self._news.pop(cgroup, None)
        outcome = self._guard.release(cgroup)
        if self._guard.holds(cgroup):
            self._looked_at.add(cgroup)  # until it is removed
        return outcome

    def let_go(self, group: str) -> None:
        """Forget a group that was removed."""
        self._guard.drop(group)
        self._forget(group)

    def _forget(self, group: str) -> None:
        self._above.discard(group)
        self._left.pop(group, None)
        self._stuck.discard(group)
        self._news.pop(group, None)
