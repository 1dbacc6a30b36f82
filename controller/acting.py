"""From decisions about components to values of groups, and back: the share in force is that at the level that counts.

A component's share stands to the one it was found with as the value of each group that it is acted at stands to that
group's original. A group that several components are acted at gets the most that any of them needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from qioi.controller.announce import Said, news
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.restore import Outcome, Result
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce, Want, groups_of
from qioi.kernel.errors import CgroupError
from qioi.model.names import few

log = logging.getLogger("qioi")


class Actor:
    """Has the guard do what was decided."""

    def __init__(self, guard: Guard, count: Callable[[Outcome], None]) -> None:
        self._guard = guard
        self._count = count
        #: Who has a share on a record of its own, by group, where that is known of groups above components.
        self.owners: Mapping[str, str] = {}
        self._above: set[str] = set()  # groups above components that were acted at, and are not put back yet
        self._stuck: set[str] = set()  # those of them that could not be put back, and that was said
        self._looked_at: set[str] = set()  # groups above components that are held
        self._news: dict[str, Said | None] = {}

    def go_on(self, above: Iterable[str]) -> None:
        """Take groups above components over that a daemon before this one has left raised on purpose."""
        self._above |= set(above)

    def look(self, cgroup: str, owner: str, placement: Placement, above: dict[str, str | None]) -> InForce:
        """Read what is in force for a component. CgroupError: its own group can't be read.

        ``above`` collects what is wrong, if anything, with each group above components that was looked at already.
        """
        guard = self._guard
        share = guard.look(cgroup, owner)
        if placement.groups == (cgroup,) and not guard.is_foreign(cgroup):  # the usual case, made short
            return InForce(share, guard.found(cgroup), placement)
        problems = []
        for group in placement.groups:
            if group != cgroup:
                if group not in above:
                    above[group] = self._look_above(group)
                if (problem := above[group]) is not None:
                    problems.append(problem)
        whose = [group for group in (cgroup, *placement.groups) if guard.is_foreign(group)]
        if whose:
            names = "its" if whose[0] == cgroup else f"{whose[0]}'s"
            problems.append(f"somebody else has changed {names} share: left alone")
        share = self._effective(cgroup, placement)
        return InForce(share, guard.found(cgroup), placement, "; ".join(problems) or None)

    def leave(self, above: Iterable[str], own: Collection[str]) -> None:
        """Let go of groups above components that are not looked at any more.

        ``above`` are those that are, ``own`` components' own groups, which may have others' below them.
        """
        self._looked_at |= set(above)
        gone = self._looked_at.difference(above, self._above)
        self._looked_at -= {group for group in gone if group not in own and self._guard.leave(group)}

    def _look_above(self, group: str) -> str | None:
        try:
            self._guard.look(group, self.owners.get(group, ""))
        except CgroupError as error:
            return f"cannot act at {group}: {error}"
        return None

    def _effective(self, cgroup: str, placement: Placement) -> int:
        """Give the share at that of the levels acted at, and ours to change, where it is the most."""
        guard, found = self._guard, self._guard.found(cgroup)
        own = guard.last(cgroup)
        if placement.groups == (cgroup,) or (own < found and not guard.is_foreign(cgroup)):
            return own
        shares = [
            round(guard.last(group) * found / guard.found(group))
            for group in placement.groups
            if guard.holds(group) and not guard.is_foreign(group)
        ]
        return max(shares) if shares else own

    def act(self, wants: Iterable[Want]) -> tuple[dict[str, int], dict[str, str]]:
        """Write what differs; give the shares in force and the problems after it, by component."""
        wants = self._unfulfilled(tuple(wants))
        targets, behind = self._targets(wants)
        self._put_back(self._above - targets.keys())
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
        shares = {}
        for want in wants:
            try:
                shares[want.decision.component] = self._effective(want.cgroup, want.placement)
            except (CgroupError, KeyError):  # it went meanwhile: the next look says so
                continue
        return shares, problems

    def _unfulfilled(self, wants: tuple[Want, ...]) -> list[Want]:
        """Leave out wishes that all is as they want it, but not those for a group that others have wishes for too."""
        standing = [self._stands(want) for want in wants]
        asked = (want.placement.groups for want, stands in zip(wants, standing, strict=True) if not stands)
        shared = self._above.union(*asked)  # one component's own group may be above another one's
        return [want for want, stands in zip(wants, standing, strict=True) if not stands or want.cgroup in shared]

    def _stands(self, want: Want) -> bool:
        """Whether all is as a wish wants it: its own group, or, where it asks for no raise, every group it names."""
        guard, group, shares = self._guard, want.cgroup, want.decision.shares
        try:
            if want.placement.groups == (group,):
                return (last := guard.last(group)) == shares or guard.raw(group, last) == guard.raw(group, shares)
            return shares == guard.found(group) == guard.last(group) and all(
                guard.last(one) == guard.found(one) for one in want.placement.groups if guard.holds(one)
            )
        except CgroupError:
            return False  # the guard finds out again, and says it

    def _targets(self, wants: Iterable[Want]) -> tuple[dict[str, int], dict[str, list[Want]]]:
        """Give every group's value in v1 units, and whom it is for, the one that asks for most first."""
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
        """Leave out what is in force already, and what is not ours."""
        changes = {}
        for group, value in targets.items():
            if self._guard.is_foreign(group):
                continue
            if self._last(group) != value:  # where it can't be read, the guard finds out again, and says it
                changes[group] = value
        return changes

    def _last(self, group: str) -> int | None:
        """Give the share that a group has; ``None`` where it can't be read."""
        try:
            return self._guard.last(group)
        except CgroupError:
            return None

    def _put_back(self, groups: Iterable[str]) -> None:
        """Restore groups above components that nobody is acted at any more."""
        for group in sorted(groups):
            outcome = self._guard.release(group)
            failed = outcome is not None and outcome.result is Result.FAILED
            if outcome is not None:
                self._count(outcome)
                if not (failed and group in self._stuck):
                    log.info("%s: let go: %s: %s", group, outcome.result, outcome.message)
            if failed:
                self._stuck.add(group)
            else:
                self._forget(group)

    def _tell(self, outcome: Outcome, previous: int | None, behind: list[Want]) -> None:
        """Log a change of what a group had; one that is no news, for those only who want to see more."""
        first, shares = behind[0].decision, outcome.shares
        what = None
        if shares is not None:
            self._news[outcome.path], what = news(self._news.get(outcome.path), self._guard.found(outcome.path), shares)
        level, what = (logging.INFO, what) if what else (logging.DEBUG, "moved")
        who = first.component
        if outcome.path != behind[0].cgroup:
            who = f"{outcome.path} (for {few(want.decision.component for want in behind)})"
        log.log(level, "%s: %s: %s -> %s: %s", who, what, previous, shares, first.reason)

    def release(self, cgroup: str) -> Outcome | None:
        """Put a component's own group back and let go of it."""
        self._news.pop(cgroup, None)
        return self._guard.release(cgroup)

    def let_go(self, group: str) -> None:
        """Forget a group that is gone."""
        self._guard.drop(group)
        self._forget(group)

    def _forget(self, group: str) -> None:
        self._above.discard(group)
        self._stuck.discard(group)
        self._news.pop(group, None)
