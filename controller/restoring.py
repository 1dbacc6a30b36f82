"""Puts groups back that nobody needs raised, and tries on in each period until that is done.

A group is put back when its component leaves, when no policy or dry runs only are left for it, when another lever takes
its component on, and when no component is acted at it from below any longer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Set

from qioi.controller.announce import News
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.restore import Outcome, Result

log = logging.getLogger("qioi")


class Restorer:
    """Restores through the guard, and knows what is left to be restored or released."""

    def __init__(self, guard: Guard, count: Callable[[Outcome], None], news: News) -> None:
        """Begin; ``count`` is told of every restore, and ``news`` forgets what is put back."""
        self._guard = guard
        self._count = count
        self._news = news
        self._above: set[str] = set()  # groups above components that were acted at, and are not put back yet
        self._left: dict[str, str] = {}  # groups to be put back that others left, and whose they are, for the log
        self._stuck: set[str] = set()  # groups that could not be put back, and that was said
        self._looked_at: set[str] = set()  # groups above components, and of components that left, that are held

    @property
    def above(self) -> Set[str]:
        """Groups above components that were acted at, and are not put back yet."""
        return self._above

    def acted_at(self, groups: Iterable[str]) -> None:
        """Put these groups above components back once nobody is acted at them any longer."""
        self._above.update(groups)

    def put_back(self, name: str, cgroup: str) -> None:
        """Restore the group of a component that left or that no policy covers; try on in later periods if it fails."""
        if not self.restore(name, cgroup):
            self._left[cgroup] = name

    def keep(self, cgroups: Iterable[str]) -> None:
        """Do not put back groups of components that came back."""
        for cgroup in cgroups:
            if self._left.pop(cgroup, None) is not None:
                self._stuck.discard(cgroup)

    def put_back_but(self, groups: Collection[str]) -> None:
        """Restore what could not be restored before, and groups above components, but those that are acted at."""
        for group in sorted((self._above | self._left.keys()).difference(groups)):
            if self.restore(self._left.get(group, group), group):
                self._forget(group)

    def restore(self, name: str, group: str) -> bool:
        """Restore a group and log the outcome, a repeated failure only once; return whether it is restored."""
        outcome = self._release(group)
        failed = outcome is not None and outcome.result is Result.FAILED
        if outcome is not None:
            self._count(outcome)
            if not (failed and group in self._stuck):
                level = logging.WARNING if failed else logging.INFO
                log.log(level, "%s: let go: %s: %s", name, outcome.result, outcome.message)
        (self._stuck.add if failed else self._stuck.discard)(group)
        return not failed

    def _release(self, group: str) -> Outcome | None:
        """Restore a group and stop holding it, unless somebody else has set its share."""
        self._news.forget(group)
        outcome = self._guard.release(group)
        if self._guard.holds(group):
            self._looked_at.add(group)  # until it is removed
        return outcome

    def leave(self, above: Collection[str], own: Collection[str]) -> None:
        """Release groups that are no longer looked at: above components, or of components that left.

        ``above`` are those that are, ``own`` components' own groups, which may have others' below them.
        """
        self._looked_at |= set(above)
        gone = self._looked_at.difference(above, self._above)
        self._looked_at -= {group for group in gone if group not in own and self._guard.leave(group)}

    def let_go(self, group: str) -> None:
        """Forget a group that was removed."""
        self._guard.drop(group)
        self._forget(group)

    def _forget(self, group: str) -> None:
        self._above.discard(group)
        self._left.pop(group, None)
        self._stuck.discard(group)
        self._news.forget(group)
