"""``cpu.idle`` for groups that their owner has labelled best-effort: they run when none of their siblings does.

Same care as for shares: identity, compare, journal, write, read back, restore. The kernel takes the group's weight away
as it makes it idle, and gives it the default weight when it ends (sched_group_set_idle in kernel/sched/fair.c; read
back on 6.18: 3000 shares, idle, not idle, 1024 shares), so what is journalled as the original is the weight. A group
that was idle before is nobody's to change, and one that somebody else has ended meanwhile is left alone but for a
weight that our making it idle has cost it. Source: kernel commit 304000390f88 (5.15), cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Outcome, Result, identity
from qioi.controller.levers.files import Access, explain
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy

FILE = "cpu.idle"
#: What the weight of an idle group reads as, by cgroup version: 3 of 1024 (WEIGHT_IDLEPRIO). Linux before 6.12 rounds
#: that down to a ``cpu.weight`` of 0, which no other group has.
IDLE_WEIGHT = {1: 3, 2: 1}
#: The journal's name in the state folder.
NAME = "idle"


class IdleGuard:
    """Holds groups that are idle by our doing."""

    def __init__(self, hierarchy: Hierarchy, access: Access, journal: Journal) -> None:
        self._hierarchy = hierarchy
        self._access = access
        self._journal = journal
        self._held: dict[str, Entry] = {}
        self._foreign: dict[str, tuple[int, int]] = {}

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that are idle by our doing."""
        return tuple(self._held)

    def make_idle(self, groups: Iterable[str]) -> list[Outcome]:
        """Make groups idle that are not yet; forget those that are gone."""
        self._held = {path: entry for path, entry in self._held.items() if not is_gone(self._hierarchy, entry)}
        outcomes: list[Outcome] = []
        new: list[Entry] = []
        for group in groups:
            try:
                device, inode = identity(self._hierarchy, group)
                held = self._held.get(group)
                if held is not None and (held.device, held.inode) == (device, inode):
                    self._check(held, outcomes)
                elif self._foreign.get(group) != (device, inode) and read_idle(self._hierarchy, group) == 0:
                    new.append(Entry(group, FILE, device, inode, self._access.read(group), (1,)))
            except CgroupError as error:
                outcomes.append(failed(group, error))
        if not new:
            return outcomes
        try:
            self._journal.store([*self._held.values(), *new])
        except OSError as error:
            why = f"journal {self._journal.file}: {error.strerror}: nothing is made idle without it"
            return outcomes + [Outcome(entry.path, Result.FAILED, None, why) for entry in new]
        for entry in new:
            self._held[entry.path] = entry
            try:
                write_idle(self._hierarchy, entry.path, 1)
                outcomes.append(
                    Outcome(entry.path, Result.OK, None, f"{FILE} = {read_idle(self._hierarchy, entry.path)}")
                )
            except CgroupError as error:
                outcomes.append(failed(entry.path, error))
        return outcomes

    def _check(self, entry: Entry, outcomes: list[Outcome]) -> None:
        """Leave a group alone that somebody else has made an ordinary one again."""
        if read_idle(self._hierarchy, entry.path) == 0:
            outcome = restore_idle(self._hierarchy, self._access, entry)
            outcomes.append(replace(outcome, message=f"somebody else has ended it: left alone: {outcome.message}"))
            self._foreign[entry.path] = entry.device, entry.inode
            del self._held[entry.path]

    def release(self, groups: Collection[str]) -> list[Outcome]:
        """Put these groups back, carry on past failures, and keep those in the journal. OSError: it can't be written.

        Groups that are not held are left alone.
        """
        entries = [entry for path, entry in self._held.items() if path in groups]
        if not entries:
            return []
        outcomes, left = restore_all(self._hierarchy, self._access, entries)
        kept = {path: entry for path, entry in self._held.items() if path not in groups}
        self._held = kept | {entry.path: entry for entry in left}
        self._journal.store(self._held.values())
        return outcomes

    def restore(self) -> list[Outcome]:
        """Put every group back, and forget what others have ended. OSError as for :meth:`release`."""
        self._foreign = {}
        return self.release(tuple(self._held))


def is_gone(hierarchy: Hierarchy, entry: Entry) -> bool:
    """Whether a group is removed, or another one has its path."""
    try:
        return identity(hierarchy, entry.path) != (entry.device, entry.inode)
    except CgroupGoneError:
        return True
    except CgroupError:
        return False


def restore_all(hierarchy: Hierarchy, access: Access, entries: Iterable[Entry]) -> tuple[list[Outcome], list[Entry]]:
    """Put groups back; return what came of each, and the entries that are still to be restored."""
    outcomes, left = [], []
    for entry in entries:
        try:
            outcomes.append(restore_idle(hierarchy, access, entry))
        except CgroupError as error:
            outcomes.append(failed(entry.path, error))
            if not isinstance(error, CgroupGoneError):
                left.append(entry)
    return outcomes, left


def restore_idle(hierarchy: Hierarchy, access: Access, entry: Entry) -> Outcome:
    """Make one group an ordinary one again, with the weight that it had."""
    if identity(hierarchy, entry.path) != (entry.device, entry.inode):
        raise CgroupGoneError(f"{hierarchy.folder(entry.path)}: another group has that path now")
    result, default = Result.OK, 1024 if hierarchy.version == 1 else 100
    if read_idle(hierarchy, entry.path) == 0:
        result = Result.FOREIGN  # or we were killed between the two writes
    else:
        write_idle(hierarchy, entry.path, 0)
    if access.read(entry.path) == default != entry.original:
        access.write(entry.path, entry.original)
    now = access.read(entry.path)
    if result is Result.OK and now != entry.original:
        raise CgroupError(f"{hierarchy.folder(entry.path)}: not idle any more, but its weight is {now}")
    return Outcome(entry.path, result, None, f"{FILE} = 0, {hierarchy.file} = {now}")


def read_idle(hierarchy: Hierarchy, path: str) -> int:
    """Read ``cpu.idle``."""
    try:
        return int(file_of(hierarchy, path).read_text())
    except ValueError as error:
        raise CgroupError(f"{file_of(hierarchy, path)}: {error}") from None
    except OSError as error:
        raise without(hierarchy, path, error) from error


def is_idle(hierarchy: Hierarchy, path: str) -> bool:
    """Whether a group is idle; one whose kernel has no ``cpu.idle``, or that can't be read, is not."""
    try:
        return read_idle(hierarchy, path) == 1
    except CgroupError:
        return False


def write_idle(hierarchy: Hierarchy, path: str, value: int) -> None:
    """Write ``cpu.idle``."""
    try:
        file_of(hierarchy, path).write_text(str(value))
    except OSError as error:
        raise without(hierarchy, path, error) from error


def file_of(hierarchy: Hierarchy, path: str) -> Path:
    """Give the file's path."""
    return hierarchy.folder(path) / FILE


def without(hierarchy: Hierarchy, path: str, error: OSError) -> CgroupError:
    """Put an error into words."""
    if hierarchy.folder(path).is_dir() and not file_of(hierarchy, path).exists():
        return CgroupError(f"{file_of(hierarchy, path)}: no such file: accepted are groups of Linux 5.15 or newer")
    return explain(error.errno or 0, hierarchy, path)


def failed(path: str, error: CgroupError) -> Outcome:
    """Say what went wrong."""
    return Outcome(path, Result.GONE if isinstance(error, CgroupGoneError) else Result.FAILED, None, str(error))
