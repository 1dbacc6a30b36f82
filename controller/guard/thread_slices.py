"""The guard of slices: of a group's threads, and of the threads that inherit a slice from them.

The journal does not wait for the disk: threads end with the host, and the page cache survives a crash of the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Outcome, Result, restore_entries
from qioi.controller.guard.writer import Writer
from qioi.controller.levers.eevdf import Scheduler
from qioi.controller.levers.lever import Identity
from qioi.controller.levers.slices import FILE, Slices
from qioi.kernel.errors import GoneError, KernelError

#: The journal's name in the state folder.
NAME = "slices"

#: How often a group's new threads are looked for in one round, which is a part of a period.
PASSES = 10
#: Slices of a group that are remembered, the last ones. Two suffice where it is listed in every round, which sees each
#: thread within one round of its birth; it may be that it cannot be listed for some rounds.
GIVEN = 16

#: Lists a group's threads; none where it is gone. OSError: they cannot be listed now.
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
    """Holds threads by number. ``threads`` lists those of a group; ``default`` is the kernel's in ns, at first."""

    def __init__(self, scheduler: Scheduler, journal: Journal, threads: Threads, default: int) -> None:
        self._slices = Slices(scheduler, default)
        self._writer = Writer(self._slices, journal, durable=False)
        self._threads = threads
        #: The threads held, by group. Each has one original, so it is in one group alone.
        self._members: dict[str, set[int]] = {}
        #: The last slices that a group's threads were given, in order: a new thread may have inherited any of them.
        self._given: dict[str, tuple[int, ...]] = {}

    def look(self) -> int:
        """Look at the kernel's slice in ns again, in every period: a thread that sleeps keeps the one of before."""
        return self._slices.look()

    def go_on(self, entries: Iterable[Entry]) -> None:
        """Hold threads whose slices a daemon before this one has set and that could not be restored yet."""
        for entry in entries:
            self._writer.take(entry)
            self._members.setdefault(entry.path, set()).add(int(entry.place))
            self._given[entry.path] = last((*self._given.get(entry.path, ()), *given_by((entry,))))

    def apply(self, wanted: dict[str, int]) -> Counts:
        """Set the slice, in ns, of every fair thread of these groups; restore all other threads that are held.

        A thread below several of these groups belongs to the innermost.
        """
        writer, held = self._writer, self._writer.held()
        lists = self._divide(wanted)
        listed = set().union(*lists.values())
        stuck: list[Outcome] = []
        for group in sorted(self._members.keys() - wanted.keys(), key=len):
            self._members[group] -= listed  # these go on in another group
            stuck += self._release(group, [one for one in wanted if one.startswith(f"{group}/")])
        changes: dict[int, int] = {}
        for group, value in wanted.items():
            self._meet(group, lists[group])
            stuck += self._release_others(group, lists[group], listed)
            self._given[group] = last((*self._given[group], value))
            for tid in self._members[group] & lists[group]:
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
        """List the threads of each group, without those of another one below it.

        A group whose threads cannot be listed now is taken to have those that are known.
        """
        lists: dict[str, set[int]] = {}
        taken: set[int] = set()
        for group in sorted(groups, key=len, reverse=True):
            try:
                threads = set(self._threads(group))
            except OSError:
                threads = self._members.get(group, set())
            lists[group] = threads - taken
            taken |= lists[group]
        return lists

    def _meet(self, group: str, listed: set[int]) -> None:
        """Hold the group's threads, new ones with the slice that they were found with."""
        writer = self._writer
        members, given = self._members.setdefault(group, set()), self._given.setdefault(group, ())
        for tid in listed - members:
            try:
                entry = writer.meet(tid, group)
            except KernelError:  # the thread has no slice, or is gone
                writer.drop(tid)
                continue
            if entry.path != group:  # it was held in another group
                writer.take(replace(entry, path=group))
            elif entry.original in given:
                writer.take(replace(entry, original=0, ours=(entry.original,)))
            members.add(tid)

    def _release_others(self, group: str, its: set[int], listed: set[int]) -> list[Outcome]:
        """Restore threads that left the group and are in no other wanted one; give the failures.

        ``its`` are the group's threads now, ``listed`` those of all wanted groups. Threads that ended are forgotten.
        """
        writer, members = self._writer, self._members[group]
        members -= listed - its  # these go on in another group
        outcomes = []
        for tid in members - its:
            self._forget_gone(tid)
            outcomes.append(writer.release(tid))
            if not writer.holds(tid):
                members.remove(tid)
        return failed(outcomes)

    def _release(self, group: str, below: Collection[str] = ()) -> list[Outcome]:
        """Restore one group's threads and their heirs; give the failures. Threads of wanted groups ``below`` are none.

        Threads that failed stay held, and so do those whose slice somebody else has set, as long as they live. A group
        that may have more heirs is released again. Groups are released from the outside in: a thread that is still held
        in a group below is no heir.
        """
        writer, members, given = self._writer, self._members.pop(group), self._given.pop(group, ())

        def threads(one: str) -> list[int]:
            listed = list(self._threads(one))
            others = set().union(*map(self._threads, below))  # listed later, so that a thread born in between is seen
            return [tid for tid in listed if tid in members or not (writer.holds(tid) or tid in others)]

        entries = [writer.held()[tid] for tid in members if writer.holds(tid)]
        outcomes = [writer.release(tid) for tid in members]
        kept = set(members)
        for tid in kept:
            if writer.holds(tid):
                self._forget_gone(tid)
        known = {one.identity for one in entries}
        failures, left, unfinished = restore_heirs(self._slices, threads, group, known, given)
        if unfinished:
            self._members[group], self._given[group] = set(), given
            left += [to_look_for(one, given) for one in entries if one.ours and not writer.holds(int(one.place))]
        for entry in left:
            writer.take(entry)
            kept.add(int(entry.place))
        if kept := {tid for tid in kept if writer.holds(tid)}:
            self._members[group] = kept
            self._given.setdefault(group, given_by(writer.held()[tid] for tid in kept))
        return [*failed(outcomes), *failures]

    def _forget_gone(self, tid: int) -> None:
        """Stop holding a thread that has ended; one that moved to another group is held on."""
        try:
            self._slices.check(tid, self._writer.held()[tid].identity)
        except GoneError:
            self._writer.drop(tid)

    def restore(self) -> list[Outcome]:
        """Restore every slice; give the failures, a journal that cannot be written included."""
        if self._members:
            self._slices.look()
        failures = [one for group in sorted(self._members, key=len) for one in self._release(group)]
        try:
            self._writer.keep()
        except OSError as error:
            failures.append(self._writer.unwritten(error))
        return failures


def failed(outcomes: Iterable[Outcome | None]) -> list[Outcome]:
    """Choose the failures."""
    return [one for one in outcomes if one is not None and one.result is Result.FAILED]


def to_look_for(entry: Entry, given: tuple[int, ...] = ()) -> Entry:
    """Make the entry of a thread that is back, or gone, and whose heirs, with a slice that was given, are to be found.

    The thread's original is expected, so that it may be given a slice again.
    """
    ours = dict.fromkeys(value for value in (*entry.ours, *given) if value != entry.original)
    return replace(entry, ours=(*ours, entry.original))


def last(given: tuple[int, ...]) -> tuple[int, ...]:
    """Choose the slices that were given last, each once, in order."""
    return tuple(dict.fromkeys(reversed(given)))[GIVEN - 1 :: -1]


def given_by(entries: Iterable[Entry]) -> tuple[int, ...]:
    """Give the slices that threads were given and that newer ones may have inherited."""
    return tuple(dict.fromkeys(value for entry in entries for value in entry.ours if value != entry.original))


def heirs(
    slices: Slices, group: str, threads: Iterable[int], known: AbstractSet[Identity], given: tuple[int, ...]
) -> list[Entry]:
    """Give entries for a group's threads that are not known: a slice that was given is inherited from a known one."""
    found = []
    for tid in threads:
        with suppress(KernelError):  # the thread is gone, or cannot be read
            if (identity := slices.identity(tid)) not in known:
                found.append(Entry(group, FILE, identity, 0, given))
    return found


def restore_heirs(
    slices: Slices, threads: Threads, group: str, known: AbstractSet[Identity], given: tuple[int, ...]
) -> tuple[list[Outcome], list[Entry], bool]:
    """Restore a group's threads that inherited a slice.

    Give the failures, the entries that failed, and whether there may be others: the threads cannot be listed, or make
    new ones too fast. They are looked for until there are none, since until an heir is restored it may have one of its
    own.
    """
    if not given:
        return [], [], False
    failures: list[Outcome] = []
    left: list[Entry] = []
    why = "its threads make new ones faster than these are restored: some may have inherited a slice"
    for _ in range(PASSES):
        try:
            listed = threads(group)
        except OSError as error:
            why = f"its threads cannot be listed ({error.strerror}): new ones may have inherited a slice"
            break
        outcomes, left = restore_entries(slices, heirs(slices, group, listed, known, given))
        failures = failed(outcomes)
        if all(one.result is not Result.OK for one in outcomes):
            return failures, left, False
    return [*failures, Outcome(group, Result.FAILED, None, why)], left, True


def restore_threads(
    scheduler: Scheduler, threads: Threads, entries: Iterable[Entry], default: int
) -> tuple[list[Outcome], list[Entry]]:
    """Restore the slices that a crashed daemon left, also in threads that inherited them.

    Give the outcome of each, of heirs the failures, and the entries that failed, or that may have other heirs.
    """
    slices, entries = Slices(scheduler, default), tuple(entries)
    outcomes, left = restore_entries(slices, entries)
    known = {entry.identity for entry in entries}
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.path, []).append(entry)
    for group, its in groups.items():
        failures, more, unfinished = restore_heirs(slices, threads, group, known, given_by(its))
        outcomes += failures
        if unfinished:
            more += [to_look_for(entry) for entry in its if entry not in left]
        left += more
    return outcomes, left
