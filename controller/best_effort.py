"""Best-effort neighbours: idle while components wait for the CPU behind foreign work, ordinary again afterwards."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from qioi.controller.guard.idle_groups import NAME, IdleGuard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.left import read_left, still_left, store_left
from qioi.controller.guard.restore import Outcome, Result, restore_entries
from qioi.controller.levers.files import Files
from qioi.controller.levers.idle import Idle
from qioi.controller.said import SaidProblems
from qioi.kernel.hierarchy import Hierarchy
from qioi.kernel.patterns import fitting
from qioi.model.groups import chain

log = logging.getLogger("qioi")

#: Seconds without interference after which groups are ordinary again.
HOLD = 10.0
#: The most groups that patterns may find; the rest is left out and logged.
MOST = 1000


class Spared:
    """The groups that are never made idle: components', those above and below them, and some more."""

    def __init__(self, components: Iterable[str], more: Iterable[str]) -> None:
        self._components = frozenset(components)
        self._levels = frozenset((*more, *(level for one in self._components for level in chain(one))))

    def __contains__(self, group: str) -> bool:
        return group in self._levels or any(level in self._components for level in chain(group))


class BestEffort:
    """Groups found by patterns for their paths below the CPU controller's mount, and those labelled by their owners.

    ``own`` is the daemon's own group: neither it nor those above it are ever made idle.
    """

    def __init__(self, patterns: Iterable[str], guard: IdleGuard, hierarchy: Hierarchy, own: str | None = None) -> None:
        self._patterns = tuple(patterns)
        self._labelled: tuple[str, ...] = ()
        self._guard = guard
        self._hierarchy = hierarchy
        self._own = chain(own) if own else ()
        self._last: float | None = None
        self._said = SaidProblems()
        #: Whether every group was put back at the end.
        self.clean = True

    def adopt(self, labelled: tuple[str, ...]) -> None:
        """Go on with other groups that their owners have labelled best-effort."""
        self._labelled = labelled

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that QiOi made idle."""
        return self._guard.groups

    def step(
        self,
        now: float,
        waits: bool,
        disturbed: bool,
        components: Iterable[str],
        changed: Callable[[], Iterable[str]] = tuple,
    ) -> tuple[str, ...]:
        """Do one period's work; give the groups that QiOi made idle.

        ``waits`` says that a component waits behind foreign work, ``disturbed`` that this keeps the host full;
        ``components`` are their groups: neither they nor those above or below them are made idle. Nor are the groups
        that are ``changed``: a share of ours is in force there, and could not be put back while the group is idle.
        """
        if not (self._patterns or self._labelled or self._guard.groups) and self._last is None:
            return ()
        if disturbed and (waits or self._last is not None):
            self._last = now
            spared = Spared(components, (*self._own, *changed()))
            # A container matches a pattern before it is known to be a component, and may be idle by then.
            self._tell(now, self._guard.release([one for one in self._guard.groups if one in spared]))
            found = self._find(spared)
            self._tell(now, self._guard.make_idle(self._first(now, found)))
            # A group that a daemon before has left, or whose label has gone, is not to be idle either.
            self._tell(now, self._guard.release([one for one in self._guard.groups if one not in found]))
        elif self._last is None or now - self._last > HOLD:
            self._last = None  # groups that are still idle then, or left by a daemon before: they are tried again
            self._tell(now, self._guard.release(self._guard.groups))
        return self._guard.groups

    def _find(self, spared: Spared) -> dict[str, None]:
        """Find the groups that are to be idle and are there now."""
        mount = self._hierarchy.mount
        named = (path for one in self._patterns for path in fitting(mount, one))
        # A Path raises where the kernel can't tell now; such a group is looked at again in the next period.
        labelled = (path for path in self._labelled if os.path.isdir(mount / path))  # noqa: PTH112
        return dict.fromkeys(path for path in (*named, *labelled) if path not in spared)

    def _first(self, now: float, found: dict[str, None]) -> list[str]:
        """Give as many of the groups as may be made idle."""
        if len(found) > MOST:
            self._said.say(now, "most", f"best_effort: {len(found)} groups match, the first {MOST} are taken")
        return list(found)[:MOST]

    def _tell(self, now: float, outcomes: Iterable[Outcome]) -> None:
        for one in outcomes:
            if one.result in (Result.OK, Result.GONE):  # a job that ends while it is idle is no problem
                log.info("best effort: %s: %s", one.path, one.message)
                self._said.forget(f"best effort: {one.path}: ")
            else:
                message = f"best effort: {one.path}: {one.result}: {one.message}"
                self._said.say(now, message, message)


@contextmanager
def best_effort(
    patterns: Iterable[str] | None, state_dir: Path, hierarchy: Hierarchy, own: str | None = None
) -> Iterator[BestEffort]:
    """Give what makes groups idle, and put every group back at the end; ``None`` for a dry run, which does neither.

    UnreadError: the groups that a daemon before this one has left idle are not known.
    """
    journal = Journal(state_dir, name=NAME)
    guard = IdleGuard(hierarchy, Files(hierarchy), journal)
    if patterns is not None:
        guard.go_on(still_left(journal))
    groups = BestEffort(patterns or (), guard, hierarchy, own)
    try:
        yield groups
    finally:
        outcomes = guard.restore() if patterns is not None else []  # a dry run leaves the journal, too
        groups.clean = all(outcome.result is not Result.FAILED for outcome in outcomes)
        for outcome in outcomes:
            log.log(logging.INFO if outcome.result is Result.OK else logging.WARNING,
                    "restore %s: %s: %s", outcome.path, outcome.result, outcome.message)  # fmt: skip


def recover_idle(state_dir: Path, hierarchy: Hierarchy) -> tuple[list[Outcome], list[str]]:
    """Restore what a daemon that died left; give the outcome of each group, and problems as text."""
    journal = Journal(state_dir, name=NAME)
    try:
        entries, problems = read_left(journal)
    except OSError as error:
        return [], [f"{journal.file}: {error.strerror}: no idle group could be put back"]
    if not entries and not os.path.lexists(journal.file):  # storing waits for the disk
        return [], []
    outcomes, left = restore_entries(Idle(hierarchy, Files(hierarchy)), entries)
    return outcomes, [*problems, *store_left(journal, left)]
