"""Restore what a crashed daemon left changed, at the next start or by `qioi restore`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qioi.controller.best_effort import recover_idle
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.left import UnreadError, read_left, store_left
from qioi.controller.guard.restore import Outcome, Result, restore_entries
from qioi.controller.levers.files import Files
from qioi.controller.levers.shares import Shares
from qioi.controller.slicing import recover_slices
from qioi.discovery.owners import EngineOwners
from qioi.discovery.told import ToldFiles
from qioi.kernel.hierarchy import Hierarchy
from qioi.model.names import printable


@dataclass(frozen=True, slots=True)
class Recovery:
    """The outcome of a recovery. ``problems`` are complete lines; ``clean`` says that no value of ours is left.

    ``threads`` counts the threads whose slices were restored or that have ended; ``left`` are the entries that failed.
    ``unread`` says why the journal of shares could not be read, and is not to be replaced.
    """

    outcomes: tuple[Outcome, ...]
    problems: tuple[str, ...]
    threads: int = 0
    left: tuple[Entry, ...] = ()
    unread: UnreadError | None = None

    @property
    def clean(self) -> bool:
        """Whether everything was readable and every restore succeeded."""
        return not self.problems and all(outcome.result is not Result.FAILED for outcome in self.outcomes)


def recover(state_dir: Path, record_dir: Path, hierarchy: Hierarchy) -> Recovery:
    """Restore every value that the journal in ``state_dir`` names, and every owner's record named in ``record_dir``.

    The caller holds the lock.
    """
    journal = Journal(state_dir)
    unread: UnreadError | None = None
    try:
        entries, problems = read_left(journal)
    except OSError as error:  # the other journals, and what Docker was told, are in files of their own
        unread, entries = UnreadError(journal.file, error), ()
        problems = [f"{journal.file}: {error.strerror}: no share that it names could be restored"]
    told, unknown = ToldFiles(record_dir).load()
    problems += unknown
    journalled = {entry.owner for entry in entries}
    entries = (*entries, *(entry for entry in told if entry.owner not in journalled))
    owners = EngineOwners(hierarchy, record_dir)
    try:
        outcomes, left = restore_entries(Shares(hierarchy, Files(hierarchy)), entries, owners)
    finally:
        owners.close()
    if unread is None:
        problems += store_left(journal, left)
    rest = recover_rest(state_dir, hierarchy)
    return Recovery((*outcomes, *rest.outcomes), (*problems, *rest.problems), rest.threads, tuple(left), unread)


def recover_rest(state_dir: Path, hierarchy: Hierarchy) -> Recovery:
    """Restore slices, and groups that were made idle."""
    threads, unsliced = recover_slices(state_dir, hierarchy)
    idle, stuck = recover_idle(state_dir, hierarchy)
    return Recovery(tuple(idle), (*unsliced, *stuck), threads)


def tell(recovery: Recovery, say: Callable[[str], None]) -> None:
    """Pass a recovery's outcomes to ``say``, one line each, fit for a terminal."""
    for problem in recovery.problems:
        say(printable(problem))
    if recovery.threads:
        say(f"slices of {recovery.threads} threads: put back")
    for outcome in recovery.outcomes:
        say(printable(f"{outcome.path}: {outcome.result}: {outcome.message}"))
