"""The guard of slices: every thread's original is journalled before it is changed, and put back.

What the guard of shares does for groups this does for threads: compare, journal, write, read back, restore, and leave
alone what somebody else has set. A thread is known by its number and the time when it began, so that one whose number
was recycled is never touched. Threads inherit a slice from the one that made them: one that is new in a group and has a
value of ours has it from there, and its original is the default. The journal is not waited for on the disk: threads
end with the host, and a crash of the daemon leaves the page cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.levers.eevdf import FAIR, Scheduler, SliceError, ThreadGoneError

#: What a journal entry names as its file; ``device`` is the thread's number, ``inode`` when it began.
FILE = "sched_runtime"
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
        self._scheduler = scheduler
        self._journal = journal
        self._threads = threads
        self._default = default
        self._held: dict[str, dict[int, Entry]] = {}
        self._foreign: set[tuple[int, int]] = set()

    def apply(self, wanted: dict[str, int]) -> Counts:
        """Give every fair thread of these groups its slice in ns, and those of all other groups their originals."""
        for group in [one for one in self._held if one not in wanted]:
            self._release(group)
        changes: list[tuple[Entry, int]] = []
        for group, value in wanted.items():
            held = self._held[group] = self._meet(group)
            for entry in held.values():
                if (entry.device, entry.inode) not in self._foreign and entry.ours[-1:] != (value,):
                    changes.append((entry, value))
        if not changes:
            return Counts()
        for entry, value in changes:
            self._held[entry.path][entry.device] = replace(entry, ours=(*entry.ours[-1:], value))
        try:
            self._store()
        except OSError as error:
            for entry, _ in changes:
                self._held[entry.path][entry.device] = entry
            return Counts(problem=f"journal {self._journal.file}: {error.strerror}: no slice is set without it")
        counts = Counts()
        for entry, value in changes:
            counts = self._write(entry, value, counts)
        return counts

    def _meet(self, group: str) -> dict[int, Entry]:
        """Give the group's threads: those known, and the new ones with what they were found with."""
        known = self._held.get(group, {})
        ours = {value for entry in known.values() for value in entry.ours}
        held: dict[int, Entry] = {}
        for tid in self._threads(group):
            if tid in known:
                held[tid] = known[tid]
                continue
            try:
                born, found = self._scheduler.born(tid), self._scheduler.read(tid)
            except SliceError:
                continue
            if found.policy in FAIR:
                inherited = found.slice in ours
                original = 0 if inherited or found.slice == self._default else found.slice
                held[tid] = Entry(group, FILE, tid, born, original, (found.slice,) if inherited else ())
        return held

    def _write(self, entry: Entry, value: int, counts: Counts) -> Counts:
        """Set one slice if the thread is the same and nobody else has changed it."""
        held = self._held[entry.path]
        try:
            if self._scheduler.born(entry.device) != entry.inode:
                raise ThreadGoneError(f"thread {entry.device}: gone, and another one has its number")
            now = self._scheduler.read(entry.device)
            if now.policy not in FAIR or now.slice not in (*entry.ours, entry.original or self._default):
                self._foreign.add((entry.device, entry.inode))
                held[entry.device] = replace(entry, ours=())
                return replace(counts, foreign=counts.foreign + 1)
            self._scheduler.write(entry.device, replace(now, slice=value))
            read = self._scheduler.read(entry.device).slice
        except ThreadGoneError:
            del held[entry.device]
            return counts
        except SliceError as error:
            return replace(counts, failed=counts.failed + 1, problem=str(error))
        held[entry.device] = replace(entry, ours=(read,))
        return replace(counts, set=counts.set + 1)

    def _store(self) -> None:
        """Journal all threads in which something of ours is, or may be."""
        self._journal.store([one for held in self._held.values() for one in held.values() if one.ours], durable=False)

    def _release(self, group: str) -> list[Entry]:
        """Put one group's threads back, and those that have it from them; give the ones that failed."""
        left = restore_threads(self._scheduler, self._threads, self._held.pop(group).values(), self._default)
        if left:
            self._held[group] = {entry.device: entry for entry in left}
        return left

    def restore(self) -> list[str]:
        """Put everything back; give what could not be, in words. OSError: the journal could not be emptied."""
        left = [entry for group in list(self._held) for entry in self._release(group)]
        self._journal.store(left, durable=False)
        self._foreign.clear()
        return [f"slice of thread {entry.device} in {entry.path} could not be put back" for entry in left]


def restore_threads(scheduler: Scheduler, threads: Threads, entries: Iterable[Entry], default: int) -> list[Entry]:
    """Put slices back that are still ours, in the same threads; give the entries that are still to be restored."""
    entries = [entry for entry in entries if entry.ours]
    left = []
    for entry in entries:
        try:
            if scheduler.born(entry.device) == entry.inode:
                put_back(scheduler, entry.device, entry.ours, entry.original)
        except ThreadGoneError:
            continue
        except SliceError:
            left.append(entry)
    known = {(entry.device, entry.inode) for entry in entries}
    for group in {entry.path for entry in entries}:
        ours = {value for entry in entries if entry.path == group for value in entry.ours} - {default}
        for tid in threads(group):
            try:
                if (tid, scheduler.born(tid)) not in known:  # born since: what it has, it has from one of ours
                    put_back(scheduler, tid, ours, 0)
            except SliceError:
                continue
    return left


def put_back(scheduler: Scheduler, tid: int, ours: Iterable[int], original: int) -> None:
    """Give one thread its original if its slice is one of ours."""
    now = scheduler.read(tid)
    if now.policy in FAIR and now.slice in ours:
        scheduler.write(tid, replace(now, slice=original))


def size(run: float, default: int, shortest: int, before: int | None) -> int | None:
    """Give the slice in ns for a component that runs for ``run`` seconds at a stretch; ``None``: the default will do.

    Twice that, so that it can mostly finish what it has begun: measured, a slice that is shorter than what a process
    runs hurts it. One that was given ``before`` stays until it is off by more than a third.
    """
    wanted = max(shortest, round(2e9 * run))
    if wanted >= 0.8 * default:
        return None
    if before is not None and 0.75 * before <= wanted <= 1.33 * before:
        return before
    return wanted
