"""The guard of slices: of a group's threads, and of the threads that inherit a slice from them.

The journal does not wait for the disk: threads end with the host, and the page cache survives a crash of the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Outcome, Result, restore_entries
from qioi.controller.guard.writer import Writer
from qioi.controller.levers.eevdf import Scheduler
from qioi.controller.levers.slices import FILE, Slices
from qioi.kernel.errors import GoneError, KernelError

#: The journal's name in the state folder.
NAME = "slices"

Threads = Callable[[str], Iterable[int]]


@dataclass(frozen=True, slots=True)
class Counts:
    """The outcome of one round: threads set, threads left alone because they are foreign, and failures.

    ``stuck`` is the first failure to restore a thread; the next round tries again.
    """

    set: int = 0
    foreign: int = 0
    failed: int = 0
    problem: str | None = None
    stuck: Outcome | None = None


class SliceGuard:
    """Holds threads by number. ``threads`` lists those of a group; ``default`` is the kernel's slice in ns."""

    def __init__(self, scheduler: Scheduler, journal: Journal, threads: Threads, default: int) -> None:
        self._slices = Slices(scheduler, default)
        self._writer = Writer(self._slices, journal, durable=False)
        self._threads = threads
        #: The threads held, by group. Each has one original, so it is in one group alone.
        self._members: dict[str, set[int]] = {}

    def go_on(self, entries: Iterable[Entry]) -> None:
        """Hold threads whose slices a daemon before this one has set and that could not be restored yet."""
        for entry in entries:
            self._writer.take(entry)
            self._members.setdefault(entry.path, set()).add(int(entry.place))

    def apply(self, wanted: dict[str, int]) -> Counts:
        """Set the slice, in ns, of every fair thread of these groups; restore the threads of all other groups.

        A thread below several of these groups belongs to the innermost.
        """
        writer, held = self._writer, self._writer.held()
        lists = self._divide(wanted)
        listed = set().union(*lists.values())
        stuck: list[Outcome] = []
        for group in sorted(self._members.keys() - wanted.keys(), key=len):
            self._members[group] -= listed  # these go on in another group
            stuck += self._release(group)
        for tid in set().union(*(self._members.get(group, ()) for group in wanted)) - listed:
            writer.drop(tid)
        changes: dict[int, int] = {}
        for group, value in wanted.items():
            self._meet(group, lists[group])
            for tid in self._members[group]:
                if held[tid].ours[-1:] != (value,):
                    changes[tid] = value
        counts = Counts(stuck=stuck[0] if stuck else None)
        for outcome in writer.apply(changes):
            match outcome.result:
                case Result.OK:
                    counts = replace(counts, set=counts.set + 1)
                case Result.FOREIGN:
                    counts = replace(counts, foreign=counts.foreign + 1)
                case Result.FAILED:
                    counts = replace(counts, failed=counts.failed + 1, problem=outcome.message)
        return counts

    def _divide(self, groups: Iterable[str]) -> dict[str, set[int]]:
        """List the threads of each group, without those of another one below it."""
        lists: dict[str, set[int]] = {}
        taken: set[int] = set()
        for group in sorted(groups, key=len, reverse=True):
            lists[group] = set(self._threads(group)) - taken
            taken |= lists[group]
        return lists

    def _meet(self, group: str, listed: set[int]) -> None:
        """Hold the group's threads, new ones with the slice that they were found with."""
        writer = self._writer
        members = self._members[group] = self._members.get(group, set()) & listed
        ours = {value for tid in members for value in writer.held()[tid].ours}
        for tid in listed - members:
            try:
                entry = writer.meet(tid, group)
            except KernelError:  # the thread has no slice, or is gone
                writer.drop(tid)
                continue
            if entry.path != group:  # it was held in another group
                writer.take(replace(entry, path=group))
            elif entry.original in ours:
                writer.take(replace(entry, original=0, ours=(entry.original,)))
            members.add(tid)

    def _release(self, group: str) -> list[Outcome]:
        """Restore one group's threads and their heirs; give the failures.

        Threads that failed stay held, and so do those whose slice somebody else has set, as long as they live. Groups
        are released from the outside in: a thread that is still held in a group below is no heir.
        """
        writer, members = self._writer, self._members.pop(group)

        def threads(one: str) -> list[int]:
            return [tid for tid in self._threads(one) if tid in members or not writer.holds(tid)]

        known = tuple(writer.held()[tid] for tid in members if writer.holds(tid))
        released = [writer.release(tid) for tid in members]
        inherited, left = restore_entries(self._slices, heirs(self._slices, threads, known))
        for entry in left:
            writer.take(entry)
        kept = {tid for tid in members if writer.holds(tid)} | {int(entry.place) for entry in left}
        for tid in kept - set(self._threads(group)) if kept else ():
            self._forget_gone(tid)
        if kept := {tid for tid in kept if writer.holds(tid)}:
            self._members[group] = kept
        return [one for one in (*released, *inherited) if one is not None and one.result is Result.FAILED]

    def _forget_gone(self, tid: int) -> None:
        """Stop holding a thread that has ended; one that moved to another group is held on."""
        try:
            self._slices.check(tid, self._writer.held()[tid].identity)
        except GoneError:
            self._writer.drop(tid)

    def restore(self) -> list[Outcome]:
        """Restore every slice; give the failures, a journal that cannot be written included."""
        for group in sorted(self._members, key=len):
            self._release(group)
        self._members.clear()
        return [outcome for outcome in self._writer.restore() if outcome.result is Result.FAILED]


def heirs(slices: Slices, threads: Threads, entries: tuple[Entry, ...]) -> list[Entry]:
    """Give entries for newer threads of the same groups: a slice of ours in them is inherited from a known thread."""
    found = []
    identities = {entry.identity for entry in entries}
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.path, []).append(entry)
    for group, known in groups.items():
        ours = tuple({value for entry in known for value in entry.ours} - {0})
        for tid in threads(group) if ours else ():
            with suppress(KernelError):  # the thread is gone, or cannot be read
                if (identity := slices.identity(tid)) not in identities:
                    found.append(Entry(group, FILE, identity, 0, ours))
    return found


def restore_threads(
    scheduler: Scheduler, threads: Threads, entries: Iterable[Entry], default: int
) -> tuple[list[Outcome], list[Entry]]:
    """Restore the slices that a crashed daemon left, also in threads that inherited them.

    Give the outcome of each, and the entries that failed.
    """
    slices, entries = Slices(scheduler, default), tuple(entries)
    return restore_entries(slices, [*entries, *heirs(slices, threads, entries)])
