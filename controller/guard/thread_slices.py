"""The guard of slices: those of a group's threads, and of the threads that these make, which inherit them.

The journal is not waited for on the disk: threads end with the host, and a crash of the daemon leaves the page cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Result, restore_entries
from qioi.controller.guard.writer import Writer
from qioi.controller.levers.eevdf import Scheduler
from qioi.controller.levers.lever import ThreadId
from qioi.controller.levers.slices import FILE, Slices
from qioi.kernel.errors import KernelError

#: The journal's name in the state folder.
NAME = "slices"

Threads = Callable[[str], Iterable[int]]


@dataclass(frozen=True, slots=True)
class Counts:
    """What came of one round: threads set, left alone because somebody else has set theirs, and failed."""

    set: int = 0
    foreign: int = 0
    failed: int = 0
    problem: str | None = None


class SliceGuard:
    """Holds threads by number. ``threads`` lists those of a group; ``default`` is the kernel's slice in ns."""

    def __init__(self, scheduler: Scheduler, journal: Journal, threads: Threads, default: int) -> None:
        self._slices = Slices(scheduler, default)
        self._writer = Writer(self._slices, journal, durable=False)
        self._threads = threads
        self._members: dict[str, set[int]] = {}

    def apply(self, wanted: dict[str, int]) -> Counts:
        """Give every fair thread of these groups its slice in ns, and those of all other groups their originals."""
        writer, held = self._writer, self._writer.held()
        for group in self._members.keys() - wanted.keys():
            self._release(group)
        changes: dict[int, int] = {}
        for group, value in wanted.items():
            self._meet(group)
            for tid in self._members[group]:
                if held[tid].ours[-1:] != (value,):
                    changes[tid] = value
        counts = Counts()
        for outcome in writer.apply(changes):
            match outcome.result:
                case Result.OK:
                    counts = replace(counts, set=counts.set + 1)
                case Result.FOREIGN:
                    counts = replace(counts, foreign=counts.foreign + 1)
                case Result.FAILED:
                    counts = replace(counts, failed=counts.failed + 1, problem=outcome.message)
        return counts

    def _meet(self, group: str) -> None:
        """Hold the group's threads: those known, and the new ones with what they were found with."""
        writer, known = self._writer, self._members.get(group, set())
        listed = set(self._threads(group))
        for tid in known - listed:
            writer.drop(tid)
        members = self._members[group] = known & listed
        ours = {value for tid in members for value in writer.held()[tid].ours}
        for tid in listed - known:
            with suppress(KernelError):  # it has no slice, or is gone
                entry = writer.meet(tid, group)
                if entry.original in ours:
                    writer.take(replace(entry, original=0, ours=(entry.original,)))
                members.add(tid)

    def _release(self, group: str) -> list[Entry]:
        """Put one group's threads back, and those that have it from them; give those that failed, which stay held."""
        writer, members = self._writer, self._members.pop(group)
        foreign = {tid for tid in members if writer.is_foreign(tid)}
        left = put_back(self._slices, self._threads, [writer.held()[tid] for tid in members])
        for tid in members - foreign:
            writer.drop(tid)
        for entry in left:
            writer.take(entry)
        if left or foreign:
            self._members[group] = foreign | {entry.identity.tid for entry in left if type(entry.identity) is ThreadId}
        return left

    def restore(self) -> list[str]:
        """Put everything back; give what could not be, in words. OSError: the journal could not be emptied."""
        left = [entry for group in list(self._members) for entry in self._release(group)]
        self._writer.record()
        return [f"slice of thread {entry.place} in {entry.path} could not be put back" for entry in left]


def put_back(slices: Slices, threads: Threads, entries: Iterable[Entry]) -> list[Entry]:
    """Put slices back that are still ours, also in threads that have it from these; give what failed."""
    entries = tuple(entries)
    return restore_entries(slices, [*entries, *heirs(slices, threads, entries)])[1]


def heirs(slices: Slices, threads: Threads, entries: Iterable[Entry]) -> list[Entry]:
    """Name the threads of the same groups that were made since: a value of ours is from one of those."""
    found = []
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.path, []).append(entry)
    for group, known in groups.items():
        ours = tuple({value for entry in known for value in entry.ours} - {0})
        identities = {entry.identity for entry in known}
        for tid in threads(group) if ours else ():
            with suppress(KernelError):  # gone, or not to be read
                if (identity := slices.identity(tid)) not in identities:
                    found.append(Entry(group, FILE, identity, 0, ours))
    return found


def restore_threads(scheduler: Scheduler, threads: Threads, entries: Iterable[Entry], default: int) -> list[Entry]:
    """Put back what a daemon that died has left; give what could not be."""
    return put_back(Slices(scheduler, default), threads, entries)
