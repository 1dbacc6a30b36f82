"""The guard of best-effort groups: it makes them idle, and restores them with the weight that they had.

A group that was idle before is left alone. If somebody else ends the idling of a group, the guard restores the weight
that idling took away, and then leaves the group alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Outcome, Result, failed, restore_entry
from qioi.controller.guard.writer import Writer
from qioi.controller.levers.files import Access
from qioi.controller.levers.idle import IDLE, Idle, is_idle
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy

#: The journal's name in the state folder.
NAME = "idle"


class IdleGuard:
    """Holds the groups that we made idle."""

    def __init__(self, hierarchy: Hierarchy, access: Access, journal: Journal) -> None:
        self._idle = Idle(hierarchy, access)
        self._writer = Writer(self._idle, journal)

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that we made idle."""
        return self._writer.changed()

    def make_idle(self, groups: Iterable[str]) -> list[Outcome]:
        """Make those groups idle that are not idle yet; forget groups that are gone."""
        writer, hierarchy = self._writer, self._idle.hierarchy
        for path in [path for path in writer.held() if self._is_gone(path)]:
            writer.drop(path)
        outcomes: list[Outcome] = []
        wanted = []
        for path in groups:
            try:
                if writer.holds(path) or not is_idle(hierarchy, path):
                    writer.meet(path, path)
                    wanted.append(path)
            except CgroupError as error:
                outcomes.append(failed(path, error))
        before = {path: writer.held()[path] for path in wanted if not writer.is_foreign(path)}
        for outcome in writer.apply(dict.fromkeys(before, IDLE)):
            # A group that is looked at anew was never made idle: its weight is somebody's choice, also the default.
            if outcome.result is Result.FOREIGN and writer.is_foreign(outcome.path):
                with suppress(CgroupError):  # the group is gone meanwhile
                    ended = restore_entry(self._idle, before[outcome.path])
                    outcome = replace(outcome, message=f"somebody else has ended it: left alone: {ended.message}")
            if outcome.result is not Result.SKIPPED:
                outcomes.append(outcome)
        return outcomes

    def go_on(self, entries: Iterable[Entry]) -> None:
        """Hold groups that a daemon before this one made idle and that could not be restored yet."""
        for entry in entries:
            self._writer.take(entry)

    def _is_gone(self, path: str) -> bool:
        """Whether a held group is removed, or another group has its path."""
        try:
            self._idle.check(path, self._writer.held()[path].identity)
        except CgroupGoneError:
            return True
        except CgroupError:
            pass
        return False

    def release(self, groups: Collection[str]) -> list[Outcome]:
        """Restore these groups, carry on past failures, and keep the failed ones in the journal.

        Groups that are not held are left alone. A journal that cannot be written is one of the failures.
        """
        released = [self._writer.release(path) for path in self.groups if path in groups]
        outcomes = [outcome for outcome in released if outcome is not None]
        try:
            if released:
                self._writer.record()
        except OSError as error:
            outcomes.append(self._writer.unwritten(error))
        return outcomes

    def restore(self) -> list[Outcome]:
        """Restore every group, and forget those whose idling others ended. Failures are as for :meth:`release`."""
        return self._writer.restore()
