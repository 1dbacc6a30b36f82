"""Move pods' CPU requests by their `resize` subresource, in a thread of its own; the kubelet then writes the shares.

The scheduler sees such a change, so both the node's configuration and each policy must opt in.
:func:`~qioi.kubernetes.resizes.step` decides what is done when. The load on the API server is two requests for a pod's
first change, one for each later change, at most one in 5 s a pod, and two for the restore; where we lack the right to
restore up to three a minute, which ask for that right too; as many in five, at last, where the server refuses that; and
one a minute, at last, where requests fail.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path

from qioi.controller.guard.journal import Journal
from qioi.kubernetes.actuators import may_patch
from qioi.kubernetes.client import STRATEGIC, Api, ApiError, Object
from qioi.kubernetes.pod_states import NEVER, Failure, PodState, PodStates
from qioi.kubernetes.pods import Pod
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION, CpuRequest, hindrance, milli, original_of, read_request
from qioi.kubernetes.resizes import (
    PAUSE,
    REFUSED,
    Do,
    Record,
    after_resize,
    erasure,
    is_outdated,
    is_raised,
    kept_raised,
    left_over,
    record_of,
    refused,
    replacement,
    step,
)

log = logging.getLogger("qioi")

#: Seconds between two rounds.
EVERY = 1.0
#: Seconds that the end may take, and seconds that the watch has to show a change then. The reporter, the cluster and
#: the files take more of the pod's terminationGracePeriodSeconds.
ENDING, SETTLED = 10.0, 1.0
#: Seconds until a request is tried again that there is no right to: rights may be granted.
FORBIDDEN_PAUSE = 60.0
#: HTTP statuses of a request that would be refused again: webhooks and limits choose one of them.
FINAL = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY})
#: Most seconds until a restore that was refused for good is tried again; each pause is twice as long as the one before.
REFUSED_PAUSE = 300.0
#: Seconds for which a raise may fail until its pod is left to the other actuators.
LASTING = 30.0
JSON_PATCH = "application/json-patch+json"
#: The journal's file name.
NAME = "requests"


class Resizer:
    """Moves and restores the requests of pods.

    ``pods`` gives all of this node's pods as the API shows them, by uid: a request is restored whatever has become of
    its pod, be it that its containers crash or that its labels have changed. ``covered`` tells by a pod's uid whether a
    policy in force covers it: the annotation of any other, which its author may have written, raises no alarm.
    ``None``: all are covered.
    """

    def __init__(
        self, api: Api, state_dir: Path, pods: Callable[[], Mapping[str, Object]], synced: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic, covered: Callable[[str], bool] | None = None,
    ) -> None:  # fmt: skip
        self._api = api
        self._journal = Journal(state_dir, name=NAME)
        self._pods = pods
        self._synced = synced
        self._covered = covered or (lambda _: True)
        self._clock = clock
        self._states = PodStates()
        #: Until when a server that is busy has asked to be left alone (Retry-After).
        self._from = float("-inf")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qioi-resizer", daemon=True)

    def start(self) -> None:
        """Start the thread, which first restores the requests that an earlier daemon left changed. OSError."""
        self.load()
        self._thread.start()

    def load(self) -> None:
        """Take over what an earlier daemon has left in the journal. OSError."""
        for problem in (loaded := self._journal.load()).problems:
            log.warning("%s: %s: the annotations on the pods are what is left", self._journal.file, problem)
        for record in map(record_of, loaded.entries):
            if record is not None:
                self._states.set(record.uid, record=record)

    # ---- for the loop

    def takes(self, pod: Pod) -> str | None:
        """Say why a pod's request is not moved; ``None`` if it may be."""
        state = self._states.of(pod.uid)
        if state.refused is not None and self._clock() < state.refused[0]:
            return state.refused[1]
        if state.foreign:
            return "somebody else has changed its request: left alone"
        if state.record is not None:
            return None
        why = hindrance(pod.qos, pod.uid != pod.group_uid, pod.cpu)
        return why if why is not None or self._synced() else "the API server is away"

    def want(self, pod: Pod, shares: int | None) -> None:
        """Ask for the request that gives a pod ``shares``; ``None`` for its original. Never waits."""
        self._states.change(pod.uid, lambda one: one.want(pod, shares))

    def record(self, uid: str) -> Record | None:
        """Give the record of a pod whose request is ours, or is being restored; ``None`` for all others."""
        state = self._states.of(uid)
        return None if state.foreign or state.restored else state.record

    def keep_only(self, uids: set[str]) -> None:
        """Restore the requests of all pods except these."""
        self._states.change_all(lambda uid, one: one if uid in uids else one.let_go())

    def problem(self, uid: str) -> str | None:
        """Say why a pod's request could not be changed."""
        return self._states.of(uid).problem

    @property
    def powerless(self) -> bool:
        """Whether a request is left changed that we have no right to put back."""
        return any(one.forbidden for one in self._states.all().values())

    def close(self) -> None:
        """Restore every request and end, in :data:`ENDING` seconds; the next start restores those that are left."""
        deadline = self._clock() + ENDING
        self.keep_only(set())  # a round that has begun goes on, and raises nothing
        self._stop.set()
        with self._api.within(ENDING):
            if self._thread.is_alive():
                self._thread.join(timeout=ENDING)
            self._api.interrupt(self._thread)  # a round that goes on would have the connection, which others need
            # A thread that still waits has used up the time, and no other one makes a round beside it.
            while not self._thread.is_alive() and self._is_restoring() and max(self._clock(), self._from) < deadline:
                self.round(self._clock(), SETTLED, deadline)
                if self._records():
                    time.sleep(0.2)
        for one in self._records():  # the thread may be in the midst of the last answer
            state, words = self._states.of(one.uid), "%s/%s: request: not restored yet"
            if state.kept:
                words = "%s/%s: request: restored, but not in force yet"
            elif state.restored:
                words = "%s/%s: request: restored, but its annotation is still there"
            if not state.foreign:
                log.warning(f"{words}: the next start sees to it, or `kubectl qioi restore`", one.namespace, one.name)

    def _is_restoring(self) -> bool:
        """Whether there are requests to restore, which nobody has refused."""
        return any(one.is_restoring for one in self._states.all().values())

    def _records(self) -> list[Record]:
        return [one.record for one in self._states.all().values() if one.record is not None]

    # ---- the thread

    def _run(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self.round(self._clock())
            except Exception:  # an error about one pod must not end the thread for all
                log.exception("kubernetes resize")

    def round(self, now: float, pause: float = PAUSE, until: float = float("inf")) -> None:
        """Do what is due for every pod: for no more of them at ``until``, or while the server asks to be left alone.

        A failed change is tried again after ``pause`` seconds.
        """
        if not self._synced():
            self._release()
            return
        pods = self._pods()
        self._take_up(pods)
        for uid in (one.uid for one in self._records()):
            if not self._from <= self._clock() < until:
                return
            pod, state = pods.get(uid), self._states.of(uid)  # what is wanted may have changed since the round began
            record = state.record
            if record is None:
                continue
            if pod is not None and "spec" not in pod:
                continue  # it has too much to be kept: what it asks for is not known, and may be ours
            if pod is None or now - state.failed.at >= state.wait(pause):
                self._attend(record, None if pod is None else read_request(pod, record.container), now, pause)

    def _release(self) -> None:
        """Leave the pods for which nothing was asked yet to the other actuators: the API server is away."""
        for one in self._records():
            if one.is_untouched:
                try:
                    self._drop(one.uid)
                except OSError as error:
                    self._say_unwritten(one.uid, error)

    def _take_up(self, pods: Mapping[str, Object]) -> None:
        """Make records of the annotations that have none, as after a restart of the node."""
        noted = {uid for uid, pod in pods.items() if original_of(pod) is not None}
        self._states.change_all(lambda uid, one: one.see(uid in pods, uid in noted))
        for uid in noted:
            state = self._states.of(uid)
            if state.stray and self._covered(uid):
                self._states.set(uid, stray=False, failed=NEVER)
            if state.record is not None or state.foreign or state.erased:
                continue
            record, stray = left_over(pods[uid]), not self._covered(uid)
            if record is not None:
                self._states.change(uid, partial(PodState.take_up, record=record, stray=stray))
            elif not state.untold:
                self._states.set(uid, untold=True)
                where = pods[uid]["metadata"]
                log.warning("%s/%s: %s: nothing tells of which container: left as it is",
                            where.get("namespace"), where["name"], ORIGINAL_ANNOTATION)  # fmt: skip

    def _attend(self, record: Record, cpu: CpuRequest | None, now: float, pause: float) -> None:
        """Do what is due for one pod, of whose container ``cpu`` is seen; ``None`` where the pod is gone."""
        if cpu is not None and (why := refused(record, cpu)) is not None:
            self._refuse(record, why)
            record = replace(record, wanted=None)
        do, target = self._due(record, cpu, now, pause)
        if do is Do.NOTHING:
            self._note_met(record, cpu)
            return
        try:
            if do is Do.FORGET or cpu is None:  # an annotation that was written all the same is taken up once seen
                self._drop(record.uid)
                return
            if do is Do.RECORD:
                self._update(record.uid, record)  # the journal first, then the pod's own record, then the change
                self._annotate(record)
                record = replace(record, noted=True)
                self._update(record.uid, record)
            if target is not None:
                self._resize(record, cpu, target, now)
            elif do is Do.ERASE:
                self._end(record, cpu)
            elif do is Do.GIVE_UP:
                self._give_up(record, cpu)
            self._states.change(record.uid, PodState.succeed)
        except ApiError as error:
            self._fail(record, cpu, error)
        except OSError as error:
            self._say_unwritten(record.uid, error)

    def _due(self, record: Record, cpu: CpuRequest | None, now: float, pause: float) -> tuple[Do, int | None]:
        """Give the next step; a request that is not ours stays so, whatever it is set to meanwhile."""
        if cpu is not None and self._states.of(record.uid).foreign:
            return Do.GIVE_UP, None
        if cpu is not None and record.wanted is None and record.is_untouched and cpu.original is None:
            return Do.FORGET, None
        return step(record, cpu, now, pause)

    def _note_met(self, record: Record, cpu: CpuRequest | None) -> None:
        """Clear the problem of a request that is as it should be: the answer to our change may have been lost.

        One that is restored, but that its kubelet does not apply, has a problem.
        """
        kept = self._states.of(record.uid).kept
        if cpu is None or (milli(cpu.asked) != record.target and not kept):
            return
        why = kept_raised(record, cpu)
        problem = None if why is None else f"request: restored, but its kubelet keeps {cpu.actual}: {why}"
        if problem is not None and not kept:
            log.warning("%s/%s: %s", record.namespace, record.name, problem)
        self._states.set(record.uid, kept=problem is not None, problem=problem)

    def _resize(self, record: Record, cpu: CpuRequest, target: int, now: float) -> None:
        """Journal and make the change, if the request is still as seen. ApiError, OSError."""
        current, text = milli(cpu.asked) or 0, record.original if target == record.found else f"{target}m"
        after = after_resize(record, current, target, now)
        self._update(record.uid, after)
        self._states.set(record.uid, kept=False, restored=False)
        change = replacement(record, cpu, text)
        self._api.request("resize", "PATCH", f"{record.path}/resize", {}, change, JSON_PATCH)
        log.info("%s/%s: request %s -> %s", record.namespace, record.name, cpu.asked, text)

    def _annotate(self, record: Record) -> None:
        """Write the original to the pod's annotation, through its status, which changes no image. ApiError."""
        metadata = {"uid": record.uid, "annotations": {ORIGINAL_ANNOTATION: record.original}}
        self._api.request("annotate", "PATCH", f"{record.path}/status", {}, {"metadata": metadata}, STRATEGIC)
        self._states.set(record.uid, erased=False)

    def _end(self, record: Record, cpu: CpuRequest) -> None:
        """Forget a pod whose request is restored, once its annotation is removed. ApiError, OSError."""
        try:
            self._erase(record, cpu)
        except ApiError as error:
            if not is_outdated(error):
                self._states.change(record.uid, PodState.leave_noted)
            raise
        self._drop(record.uid)

    def _erase(self, record: Record, cpu: CpuRequest) -> None:
        """Remove the pod's annotation if its request is still as seen; otherwise ours may be in force. ApiError."""
        if cpu.original is not None:
            self._states.set(record.uid, erased=True)
        try:
            self._api.request("annotate", "PATCH", f"{record.path}/status", {}, erasure(record, cpu), JSON_PATCH)
        except ApiError as error:
            # Somebody has put back what we have no right to. If we see this too late, the annotation tells us again.
            if error.status != HTTPStatus.FORBIDDEN or cpu.original is not None:
                raise

    def _give_up(self, record: Record, cpu: CpuRequest) -> None:
        """Leave a request that is not ours alone for good. ApiError, OSError.

        Without the right to remove an annotation that is plausible the record stays: the next start would take the
        request for ours by the annotation alone. One that is not plausible may stay: nobody goes by it.
        """
        kept = None
        try:
            self._erase(record, cpu)
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            kept = error if is_raised(cpu) else None
        if not self._states.of(record.uid).foreign:
            log.warning("%s/%s: somebody else has set its request to %s: left alone",
                        record.namespace, record.name, cpu.asked)  # fmt: skip
        self._states.set(record.uid, foreign=True)
        if kept is None:
            self._drop(record.uid)
        else:
            self._update(record.uid, record)
            raise kept

    def _fail(self, record: Record, cpu: CpuRequest | None, error: ApiError) -> None:
        """Note a failure, and refuse the pod if the server would refuse the same request again.

        A raise that fails for long is refused, too, unless one before it is seen to be in force.
        """
        self._from = self._clock() + error.wait
        state = self._states.of(record.uid)
        if error.status == HTTPStatus.FORBIDDEN and state.foreign:  # there is nothing that others have to put back
            failed = Failure(self._clock(), FORBIDDEN_PAUSE)
            self._states.set(record.uid, failed=failed, forbidden=False, problem=None)
            return
        raises, outdated = record.wanted is not None, is_outdated(error)
        final = error.status in FINAL and not outdated
        before = state.failed.of(raises)
        failed = before.next(self._clock(), raises, not final and not outdated)
        self._states.set(record.uid, failed=failed, problem=f"request: {error}")
        if raises:
            found = cpu is not None and milli(cpu.asked) == record.found
            if final:
                self._refuse(record, f"its resize was refused: {error}")
            elif found and not outdated and failed.at - failed.since >= LASTING:
                self._refuse(record, f"its resize fails again and again: {error}")
            return
        lacks = error.status == HTTPStatus.FORBIDDEN and not state.stray and self._lacks_right(record)
        if lacks:
            self._states.set(record.uid, failed=Failure(self._clock(), FORBIDDEN_PAUSE), forbidden=True)
            if not state.forbidden:
                log.warning("%s/%s: request: no right to put it back: run `kubectl qioi restore`: %s",
                            record.namespace, record.name, error)  # fmt: skip
        elif final and lacks is not None:
            failed = Failure(self._clock(), min(REFUSED_PAUSE, max(PAUSE, 2 * before.pause)), refused=True)
            self._states.set(record.uid, failed=failed, forbidden=False)
            if not before.refused:
                log.warning("%s/%s: request: not restored, and tried again ever more rarely: %s",
                            record.namespace, record.name, error)  # fmt: skip

    def _lacks_right(self, record: Record) -> bool | None:
        """Whether we may not restore a request, for limits and webhooks refuse by 403, too; ``None``: nobody tells."""
        try:
            return not all(may_patch(self._api, one, record.namespace) for one in ("resize", "status"))
        except ApiError:
            return None  # what was known before stays

    def _refuse(self, record: Record, why: str) -> None:
        """Leave a pod to the other actuators for :data:`REFUSED` seconds, and restore its request."""
        log.warning("%s/%s: resize: %s: files are written instead", record.namespace, record.name, why)
        until = self._clock() + REFUSED
        self._states.change(record.uid, lambda one: one.refuse(until, why))

    def _update(self, uid: str, record: Record) -> None:
        """Store a record in the journal; keep the newest wanted request, which may have changed meanwhile. OSError."""
        self._states.change(uid, lambda one: one.keep(record))
        self._journal.store(self._states.entries())

    def _drop(self, uid: str) -> None:
        self._states.change(uid, PodState.drop)
        self._journal.store(self._states.entries())

    def _say_unwritten(self, uid: str, error: OSError) -> None:
        self._states.set(uid, problem=f"journal {self._journal.file}: {error.strerror}: nothing is changed without it")
