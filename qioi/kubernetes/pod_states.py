"""What is known of each pod whose request is moved, restored or left alone: one state a pod, all under one lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from qioi.controller.guard.journal import Entry
from qioi.kubernetes.pods import Pod
from qioi.kubernetes.resizes import PAUSE, Record, begin, entry_of, request_for

#: Most seconds until a request is tried again that failed, but was not refused.
FAILED_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """The last request to the API server for a pod, where that failed.

    ``at``: the monotonic time of that. ``pause``: seconds until it may be tried again; 0: the pause that
    :meth:`~qioi.kubernetes.resizer.Resizer.round` is given. ``raises``: it was for a raise, not for a restore; one is
    not held up by a failure of the other. ``since``: the monotonic time of the first failure in a row.
    ``refused``: the server refused to restore the pod's request, and would again.
    """

    at: float
    pause: float = 0.0
    raises: bool = False
    since: float = float("inf")
    refused: bool = False

    def of(self, raises: bool) -> Failure:
        """Give the last failure of a raise, or of a restore."""
        return self if self.raises == raises else NEVER

    def next(self, at: float, raises: bool, grows: bool) -> Failure:
        """Give the failure that follows, with a longer pause if it ``grows``."""
        before = self.of(raises)
        if not grows or before.refused:
            return replace(before, at=at, raises=raises)
        pause = min(FAILED_PAUSE, max(PAUSE, 2 * before.pause))
        return replace(before, at=at, raises=raises, pause=pause, since=min(before.since, at))


#: The failure of a request that has not failed.
NEVER = Failure(float("-inf"))


@dataclass(frozen=True, slots=True)
class PodState:
    """One pod. All methods give the state after something has happened.

    ``record``: there is one while its request is ours, or is being restored. ``refused``: until which monotonic time
    its request is not moved, and why. ``forbidden``: we have no right to put its request back. ``foreign``: somebody
    else has set its request; it has a record while its annotation, which names ours, cannot be erased. ``kept``: its
    request is restored, but its kubelet does not apply that. ``restored``: its request is, and only its annotation,
    which cannot be erased, is left. ``stray``: no policy in force covers it, and its annotation alone says that its
    request was changed. ``erased``: its annotation is removed, but still seen. ``untold``: its annotation is of an
    unknown container, and that was said. ``problem``: why its request could not be changed.
    """

    record: Record | None = None
    refused: tuple[float, str] | None = None
    failed: Failure = NEVER
    forbidden: bool = False
    foreign: bool = False
    kept: bool = False
    restored: bool = False
    stray: bool = False
    erased: bool = False
    untold: bool = False
    problem: str | None = None

    @property
    def is_restoring(self) -> bool:
        """Whether its request is to be restored, and neither the server nor its kubelet has said that it refuses."""
        return self.record is not None and not (self.foreign or self.forbidden or self.kept or self.failed.refused)

    def wait(self, pause: float) -> float:
        """Give the seconds from its failure to the next request: ``pause`` or more, unless that is the end's."""
        raises = self.record is not None and self.record.wanted is not None
        if self.failed.raises != raises or (pause < PAUSE and self.is_restoring):
            return pause
        return max(pause, self.failed.pause)

    def want(self, pod: Pod, shares: int | None) -> PodState:
        """Ask for the request that gives the pod ``shares``; ``None`` for its original."""
        record = self.record
        if record is None and shares is not None:
            record = begin(pod)
            if record is not None and request_for(record, pod.cpu, shares) == record.found:
                record = None
        if record is None:
            return self
        others = record.container != pod.main  # a label names another container now: first this one is restored
        wanted = None if shares is None or others else request_for(record, pod.cpu, shares)
        restored = self.restored and wanted is None
        return replace(self, record=replace(record, wanted=wanted), restored=restored, stray=False)

    def let_go(self) -> PodState:
        """Have its request restored."""
        return self if self.record is None else replace(self, record=replace(self.record, wanted=None))

    def refuse(self, until: float, why: str) -> PodState:
        """Have its request restored, and not moved until then."""
        return replace(self.let_go(), refused=(until, why))

    def leave_noted(self) -> PodState:
        """Take in that its request is restored, and its annotation stays; a raise may have been asked for meanwhile."""
        return replace(self, restored=self.record is not None and self.record.wanted is None)

    def keep(self, record: Record) -> PodState:
        """Take in what was done; the newest wanted request stays, which may have changed meanwhile."""
        wanted = record.wanted if self.record is None else self.record.wanted
        return replace(self, record=replace(record, wanted=wanted))

    def take_up(self, record: Record, stray: bool) -> PodState:
        """Take in what its annotation says, unless something is known of it."""
        return self if self.record is not None else replace(self, record=record, stray=stray)

    def see(self, there: bool, noted: bool) -> PodState:
        """Take in whether the pod is there, and its annotation, which may be seen for a moment after its removal."""
        if self.record is None and not there:
            return UNKNOWN
        return replace(
            self,
            refused=self.refused if there else None,
            foreign=self.foreign and there,
            erased=self.erased and noted,
            untold=self.untold and noted,
        )

    def succeed(self) -> PodState:
        """Take in that the last request to the server was carried out."""
        return replace(self, failed=NEVER, forbidden=False, kept=False, restored=False, problem=None)

    def drop(self) -> PodState:
        """Take in that nothing is left to do."""
        return replace(self.succeed(), record=None, stray=False)


#: The state of a pod of which nothing is known.
UNKNOWN = PodState()


class PodStates:
    """The states of all pods, by uid. Any thread may call these methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, PodState] = {}

    def of(self, uid: str) -> PodState:
        """Give a pod's state."""
        with self._lock:
            return self._states.get(uid, UNKNOWN)

    def all(self) -> dict[str, PodState]:
        """Give the states of all pods of which something is known, as they are now."""
        with self._lock:
            return dict(self._states)

    def change(self, uid: str, change: Callable[[PodState], PodState]) -> None:
        """Change one pod's state."""
        with self._lock:
            self._put(uid, change(self._states.get(uid, UNKNOWN)))

    def set(self, uid: str, **fields: object) -> None:
        """Change these fields of one pod's state."""
        self.change(uid, lambda one: replace(one, **fields))  # type: ignore[arg-type]

    def change_all(self, change: Callable[[str, PodState], PodState]) -> None:
        """Change every pod's state."""
        with self._lock:
            for uid, one in list(self._states.items()):
                self._put(uid, change(uid, one))

    def entries(self) -> list[Entry]:
        """Make the journal's entries; strays have none, so that they stay strays."""
        return [entry_of(one.record) for one in self.all().values() if one.record is not None and not one.stray]

    def _put(self, uid: str, state: PodState) -> None:
        if state == UNKNOWN:
            self._states.pop(uid, None)
        else:
            self._states[uid] = state
