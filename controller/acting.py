"""Carries out a period's decisions: has the guard write what groups are to have, and says what came of it.

in_force.py reads what groups have, levels/targets.py plans what they are to have, and restoring.py puts them back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from qioi.controller.announce import News
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.restore import Outcome, Result
from qioi.controller.in_force import Reader, Standing
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.targets import changes, is_change, is_made, plan, share_of
from qioi.controller.levels.wants import Top, Want, top_of
from qioi.controller.other_lever import NO_OTHER_LEVER, OtherLever
from qioi.controller.restoring import Restorer
from qioi.controller.slicing import SliceState
from qioi.kernel.errors import CgroupError
from qioi.model import Component, Decision, Owner
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
        self.guard = guard
        self._tell_of = count
        self._other = other
        self._written = 0
        #: The owners of groups above components, by group, where they are known.
        self.owners: Mapping[str, Owner] = {}
        self._news = News()
        self._restorer = Restorer(guard, self._count, self._news)
        self._reader = Reader(guard, other, self._restorer)

    # ---- what is in force

    def look_at(self, components: Iterable[Component], placements: Mapping[str, Placement]) -> Standing:
        """Read what is in force for every component, at the level that counts."""
        return self._reader.look_at(components, placements, self.owners)

    def take_up(self, component: str) -> None:
        """Have a component's groups taken up again that somebody else has changed; any thread may call this."""
        self._reader.take_up(component)

    def adopt(self, owners: Mapping[str, Owner]) -> None:
        """Go on with other owners of groups above components, by group."""
        self.owners = owners

    def raised(self) -> frozenset[str]:
        """Name the groups that have more than they were found with."""
        return self.guard.raised()

    # ---- what is let go of

    def go_on(self, above: Iterable[str]) -> None:
        """Take over groups above components that the previous daemon left raised on purpose."""
        self._restorer.acted_at(above)

    def put_back(self, name: str, cgroup: str) -> None:
        """Restore the group of a component that left or that no policy covers; try on in later periods if it fails."""
        self._restorer.put_back(name, cgroup)

    def let_go(self, group: str) -> None:
        """Forget a group that was removed."""
        self._restorer.let_go(group)

    # ---- decisions

    def count_changes(self, wants: Iterable[Want]) -> int:
        """Count the decisions that change a share, after rounding to the kernel's unit."""
        return sum(is_change(self.guard, want) for want in wants)

    def ours(self, wants: Iterable[Want]) -> list[Decision]:
        """Give the decisions about groups that nobody else has changed."""
        return [want.decision for want in wants if not self.guard.is_foreign(want.cgroup)]

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
            if (top := tops.get(want.decision.component)) is not None and is_made(self.guard, want, top)
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
                if want.decision.component in problems and not self.guard.holds(want.cgroup)
            ),
            released,
        )

    def _dry_out(self, wants: Collection[Want]) -> tuple[str, ...]:
        """Restore components whose policies are all dry runs; name those that were restored."""
        changed = self.guard.changed() if wants else ()
        names = [(want.decision.component, want.cgroup) for want in wants if want.cgroup in changed]
        return tuple(name for name, cgroup in names if self._restorer.restore(name, cgroup))

    def _write(self, wants: Collection[Want]) -> tuple[dict[str, Top], dict[str, str]]:
        """Write values that differ; give what is in force and the problems afterwards, by component."""
        restorer = self._restorer
        restorer.keep(want.cgroup for want in wants)
        targets = plan(self.guard, wants, restorer.above)
        restorer.acted_at(targets.above)
        restorer.put_back_but(targets.values)
        problems: dict[str, str] = {}
        values = changes(self.guard, targets.values)
        previous = {group: share_of(self.guard, group) for group in values}
        for outcome in self.guard.apply(values):
            self._count(outcome)
            behind = targets.behind[outcome.path]
            if outcome.result is Result.OK:
                self._tell(outcome.path, previous[outcome.path], behind)
            elif outcome.result is not Result.SKIPPED:
                problems |= {want.decision.component: outcome.message for want in behind}
                if outcome.result is Result.GONE:
                    restorer.let_go(outcome.path)
        tops = {}
        for want in targets.wants:
            with suppress(CgroupError, KeyError):  # it went meanwhile: the next look says so
                tops[want.decision.component] = top_of(self.guard, want.cgroup, want.placement)
        return tops, problems

    def _count(self, outcome: Outcome) -> None:
        self._written += outcome.result is Result.OK
        self._tell_of(outcome)

    def _tell(self, group: str, previous: int | None, behind: list[Want]) -> None:
        """Log a change of a group's value: at INFO if it is news, else at DEBUG."""
        first, share = behind[0].decision, self.guard.last(group)
        what = self._news.of(group, self.guard.found(group), share)
        level, what = (logging.INFO, what) if what else (logging.DEBUG, "moved")
        who = first.component
        if group != behind[0].cgroup:
            who = f"{group} (for {few(want.decision.component for want in behind)})"
        log.log(level, "%s: %s: %s -> %s: %s", who, what, previous, share, first.reason)
