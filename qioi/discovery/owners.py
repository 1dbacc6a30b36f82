"""Keeps the records of shares that engines and systemd have in step with what the guard has written.

The guard writes the control group, at once; one thread tells its owner, so that `docker inspect` and `systemctl show`
agree and the owner's next write of that group is no other value. The loop never waits for an owner: beside
a crowd one call can take seconds. Only the newest value of a record is told, and at most one in :data:`PAUSE`,
because a call to an engine costs the host 10 to 30 ms of CPU (it starts the container runtime).

A record outlives its process, and Docker's even the host's restart. So what is told here is put back here, also for
a container or unit that has stopped meanwhile.

An owner that is told writes the group too. So it is told of nothing that is not in force in the group, and where
somebody else has changed a group whose record is put back, his value is in force afterwards as before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from qioi.controller.guard.journal import Entry
from qioi.controller.guard.owners import Owners
from qioi.controller.levers.files import Files
from qioi.controller.levers.shares import Shares
from qioi.discovery.engine_records import EngineRecords
from qioi.discovery.nri_records import NriRecords
from qioi.discovery.records import Keeper, NoRecordError, RecordError, RefusedError, UnsuitableError
from qioi.discovery.told import ToldFiles
from qioi.discovery.tracebacks import Tracebacks
from qioi.discovery.unit_records import UnitRecords
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Owner, OwnerKind

#: Seconds between two updates of one container.
PAUSE = 2.0
#: Seconds between attempts while an engine does not answer.
RETRY = 0.5
#: And while it answers, but is none that can be told.
RETRY_UNSUITABLE = 30.0
#: Seconds that :meth:`EngineOwners.settle` waits at most.
SETTLE = 20.0


@dataclass(slots=True)
class Record:
    """What is known and wanted of one record. ``wanted`` is ``None`` when nothing is to be done.

    ``only_from``: the record is put back only if it says one of these; ``None`` to write it anyway.
    """

    entry: Entry
    kept: set[int] = field(default_factory=set)
    wanted: int | None = None
    only_from: frozenset[int] | None = None
    busy: bool = False
    not_before: float = 0.0
    problem: str | None = None


class EngineOwners(Owners):
    """All records of engines, of systemd and, by NRI, of containerd. Its thread starts when it is first needed."""

    def __init__(self, hierarchy: Hierarchy, record_dir: Path, *, pause: float = PAUSE) -> None:
        self._groups = Shares(hierarchy, Files(hierarchy))
        self._keepers: dict[str, Keeper] = {
            OwnerKind.DOCKER: EngineRecords(ToldFiles(record_dir)),
            OwnerKind.SYSTEMD: UnitRecords(hierarchy.version),
            OwnerKind.NRI: NriRecords(),
        }
        self._pause = pause
        self._records: dict[Owner, Record] = {}
        self._changed = threading.Condition()
        self._hurry = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._tracebacks = Tracebacks()

    # ---- for the guard

    def tell(self, entry: Entry) -> None:
        """Have the record say the last of what is ours, soon; until then it may say the others."""
        self._ask(entry, entry.ours[-1], None)

    def release(self, entry: Entry) -> None:
        """Have the record say the original, soon, if it says one of what is ours."""
        self._ask(entry, entry.original, frozenset(entry.ours))

    def leave(self, owner: Owner) -> None:
        """Tell nothing more of what was asked for."""
        with self._changed:
            record = self._records.get(owner)
            if record is not None and record.only_from is None:
                record.wanted = record.problem = None
                self._changed.notify_all()

    def kept(self, owner: Owner | None) -> tuple[int, ...]:
        """Values of ours that the record may hold, or that are on their way to it; the original until it was told."""
        with self._changed:
            record = self._records.get(owner) if owner is not None else None
            return tuple(sorted(record.kept)) if record else ()

    def settle(self) -> Mapping[Owner, str]:
        """Do all that is left, without pauses; say which records could not be reached, and why."""
        deadline = time.monotonic() + SETTLE
        with self._changed:
            self._hurry = True
            for record in self._records.values():
                record.problem = None
            self._begin()
            self._changed.notify_all()
            while (left := self._unsettled()) and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            self._hurry = False
            for owner in left:
                self._records[owner].problem = "it does not answer in time"
            return {owner: record.problem for owner, record in self._records.items() if record.problem}

    # ---- for people

    def problem(self) -> str | None:
        """Say in one line which containers could not be told."""
        with self._changed:
            self._begin()
            waiting = [record.problem for record in self._records.values() if record.problem]
        return f"{len(waiting)} shares are in force but not on their owner's record: {waiting[0]}" if waiting else None

    def close(self) -> None:
        """End the thread; what was not done stays undone."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    # ---- the thread

    def _ask(self, entry: Entry, value: int, only_from: frozenset[int] | None) -> None:
        assert entry.owner is not None  # the guard tells of no other
        with self._changed:
            record = self._records.setdefault(entry.owner, Record(entry))
            if only_from is not None:
                only_from |= record.kept
            record.kept.update(entry.ours)
            record.entry, record.wanted, record.only_from = entry, value, only_from
            self._begin()
            self._changed.notify_all()

    def _begin(self) -> None:
        """Start the thread if it is needed. A host that is out of threads is asked again."""
        if self._thread is not None:
            return
        waiting = [record for record in self._records.values() if record.wanted is not None]
        if not waiting:
            return
        thread = threading.Thread(target=self._run, name="qioi-owners", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            for record in waiting:
                record.problem = f"no thread to tell it: {error}"
            return
        self._thread = thread

    def _unsettled(self) -> list[Owner]:
        """Name the records that something is yet to be done about, and may be."""
        return [o for o, one in self._records.items() if one.busy or (one.wanted is not None and one.problem is None)]

    def _run(self) -> None:
        while True:
            with self._changed:
                owner = self._next()
                while owner is None and not self._closed:
                    self._changed.wait(self._until_next())
                    owner = self._next()
                if self._closed or owner is None:
                    break
                record = self._records[owner]
                entry, wanted, only_from = record.entry, record.wanted, record.only_from
                record.wanted, record.busy = None, True
                record.not_before = time.monotonic() + self._pause
            assert wanted is not None  # else _next would not have given it
            self._do(owner, entry, wanted, only_from)
        for keeper in self._keepers.values():
            keeper.close()

    def _next(self) -> Owner | None:
        """Choose a record that something is to be done about now; the longest waiting first."""
        now = time.monotonic()
        ready = [
            owner
            for owner, record in self._records.items()
            if record.wanted is not None and (record.not_before <= now or (self._hurry and record.problem is None))
        ]
        return min(ready, key=lambda owner: self._records[owner].not_before, default=None)

    def _until_next(self) -> float | None:
        times = [record.not_before for record in self._records.values() if record.wanted is not None]
        return max(0.001, min(times) - time.monotonic()) if times else None

    def _do(self, owner: Owner, entry: Entry, wanted: int, only_from: frozenset[int] | None) -> None:
        """Make one update, and note what the record may hold after it."""
        kept: set[int] | None
        problem, alone, pause = None, False, RETRY
        try:
            kept = self._update(owner, entry, wanted, only_from)
        except NoRecordError:
            kept = set()
        except RecordError as error:
            kept, problem, alone = None, str(error), isinstance(error, RefusedError)
            pause = RETRY_UNSUITABLE if isinstance(error, UnsuitableError) else RETRY
        except Exception as error:  # an answer, or a name in a journal, of another shape: no end of all telling
            self._tracebacks.say(f"record {owner}", error)
            kept, problem = None, f"{type(error).__name__}: {error}"
        with self._changed:
            record = self._records[owner]
            record.problem, record.busy = problem, False
            if kept is None:
                if record.wanted is None:  # nothing newer was asked for meanwhile
                    record.wanted, record.only_from = wanted, only_from
                record.not_before = time.monotonic() + pause
                if not alone:
                    self._fail_alike(owner, problem)
            elif record.wanted is None:
                record.kept = kept
                if kept <= {entry.original}:  # nothing of ours
                    del self._records[owner]
            elif record.only_from is None:
                record.kept = kept | {wanted, record.wanted}  # an owner writes its group as it is told
            self._changed.notify_all()

    def _update(self, owner: Owner, entry: Entry, wanted: int, only_from: frozenset[int] | None) -> set[int]:
        """Have the owner told, and nobody else's value in the group be changed by that. RecordError, NoRecordError."""
        before = self._in_force(entry)
        if only_from is None and before != wanted:
            # Changed since by us, who will tell, or by somebody else, or gone: the guard sees which.
            with self._changed:
                return set(self._records[owner].kept)
        kept = self._keeper(owner).update(entry, wanted, only_from)
        if only_from is None or before is None or before in (wanted, *only_from):
            return kept
        if self._in_force(entry) == wanted:
            with suppress(CgroupError):  # gone meanwhile
                self._groups.write(entry.path, before, self._groups.identity(entry.path))
        return kept

    def _in_force(self, entry: Entry) -> int | None:
        """Read what a group has; ``None`` where it is gone, or cannot be read."""
        try:
            return self._groups.read(entry.path)
        except CgroupError:
            return None

    def _fail_alike(self, owner: Owner, problem: str | None) -> None:
        """What one call has shown of who answers there holds for all their records, until they are asked again."""
        for other, record in self._records.items():
            if record.wanted is not None and (other.kind, other.where) == (owner.kind, owner.where):
                record.problem = problem
                record.not_before = max(record.not_before, time.monotonic() + RETRY)

    def _keeper(self, owner: Owner) -> Keeper:
        if owner.kind not in self._keepers:
            raise RecordError(f"record {owner}: kind {owner.kind}: accepted are {', '.join(self._keepers)}")
        return self._keepers[owner.kind]
