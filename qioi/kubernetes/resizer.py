"""Move pods' CPU requests by their `resize` subresource, in a thread of its own; the kubelet then writes the shares.

The scheduler sees such a change, so both the node's configuration and each policy must opt in.
:func:`~qioi.kubernetes.resizes.step` decides what is done when. The load on the API server is two requests for a pod's
first change, one for each later change, at most one in 5 s a pod, and two for the restore; where we lack the right to
restore up to three a minute, which ask for that right too; and at last as many in five where the server refuses that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from qioi.controller.guard.journal import Entry, Journal
from qioi.kubernetes.actuators import may_patch
from qioi.kubernetes.client import STRATEGIC, Api, ApiError, Object
from qioi.kubernetes.pods import Pod, is_ledgers
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION, CpuRequest, hindrance, milli, original_of, read_request
from qioi.kubernetes.resizes import (
    PAUSE,
    REFUSED,
    Do,
    Record,
    after_resize,
    begin,
    entry_of,
    erasure,
    is_raised,
    left_over,
    record_of,
    refused,
    replacement,
    request_for,
    step,
)

log = logging.getLogger("qioi")

#: Seconds between two rounds.
EVERY = 1.0
#: Seconds that the end may take, and seconds that the watch has to show a change then. The reporter, the cluster and
#: the files take more of the pod's terminationGracePeriodSeconds.
ENDING, SETTLED = 10.0, 1.0
#: The HTTP status of a request that there is no right to, and seconds until it is tried again: rights may be granted.
FORBIDDEN, FORBIDDEN_PAUSE = 403, 60.0
#: Most seconds until a restore that was refused for good is tried again; each pause is twice as long as the one before.
REFUSED_PAUSE = 300.0
JSON_PATCH = "application/json-patch+json"
#: The journal's file name.
NAME = "requests"


@dataclass(frozen=True, slots=True)
class Failure:
    """A request to the API server that failed.

    ``at``: the monotonic time of that. ``pause``: seconds until a restore may be tried again; 0: the pause that
    :meth:`Resizer.round` is given. ``refused``: the server refused to restore the pod's request, and would again.
    """

    at: float
    pause: float = 0.0
    refused: bool = False


#: The failure of a request that has not failed.
NEVER = Failure(float("-inf"))


class Resizer:
    """Moves and restores the requests of pods.

    ``pods`` gives all of this node's pods as the API shows them, by uid: a request is restored whatever has become of
    its pod, be it that its containers crash or that its labels have changed.
    """

    def __init__(
        self, api: Api, state_dir: Path, pods: Callable[[], Mapping[str, Object]], synced: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._api = api
        self._journal = Journal(state_dir, name=NAME)
        self._pods = pods
        self._synced = synced
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}
        self._refused: dict[str, tuple[float, str]] = {}  # by uid: until when, and why
        self._failed: dict[str, Failure] = {}  # by uid
        self._forbidden: set[str] = set()  # pods whose request we have no right to put back
        self._foreign: set[str] = set()  # with a record while their annotation, which names ours, cannot be erased
        self._strays: set[str] = set()  # pods of no ledger, whose annotation alone says that their request was changed
        self._erased: set[str] = set()  # pods whose annotation is removed, but still seen
        self._untold: set[str] = set()  # pods whose annotation is of an unknown container, and that was said
        self._problems: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qioi-resizer", daemon=True)

    def start(self) -> None:
        """Start the thread, which first restores the requests that an earlier daemon left changed. OSError."""
        for problem in (loaded := self._journal.load()).problems:
            log.warning("%s: %s: the annotations on the pods are what is left", self._journal.file, problem)
        self._records = {one.uid: one for one in map(record_of, loaded.entries) if one is not None}
        self._thread.start()

    # ---- for the loop

    def takes(self, pod: Pod) -> str | None:
        """Say why a pod's request is not moved; ``None`` if it may be."""
        with self._lock:
            until, why = self._refused.get(pod.uid, (0.0, ""))
            if self._clock() < until:
                return why
            if pod.uid in self._foreign:
                return "somebody else has changed its request: left alone"
            return None if pod.uid in self._records else hindrance(pod.qos, pod.uid != pod.group_uid, pod.cpu)

    def want(self, pod: Pod, shares: int | None) -> None:
        """Ask for the request that gives a pod ``shares``; ``None`` for its original. Never waits."""
        with self._lock:
            record = self._records.get(pod.uid)
            if record is None and shares is not None:
                record = begin(pod)
                if record is not None and request_for(record, pod.cpu, shares) == record.found:
                    record = None
            if record is not None:
                self._strays.discard(pod.uid)
                others = record.container != pod.main  # a label names another container now: first this one is restored
                wanted = None if shares is None or others else request_for(record, pod.cpu, shares)
                self._records[pod.uid] = replace(record, wanted=wanted)

    def record(self, uid: str) -> Record | None:
        """Give the record of a pod whose request is ours, or is being restored; ``None`` for all others."""
        with self._lock:
            return None if uid in self._foreign else self._records.get(uid)

    def keep_only(self, uids: set[str]) -> None:
        """Restore the requests of all pods except these."""
        with self._lock:
            for uid, record in self._records.items():
                if uid not in uids and record.wanted is not None:
                    self._records[uid] = replace(record, wanted=None)

    def problem(self, uid: str) -> str | None:
        """Say why a pod's request could not be changed."""
        with self._lock:
            return self._problems.get(uid)

    @property
    def powerless(self) -> bool:
        """Whether a request is left changed that we have no right to put back."""
        return bool(self._forbidden)

    def close(self) -> None:
        """Restore every request and end, in :data:`ENDING` seconds; the next start restores those that are left."""
        deadline = self._clock() + ENDING
        self.keep_only(set())  # a round that has begun goes on, and raises nothing
        self._stop.set()
        with self._api.within(ENDING):
            if self._thread.is_alive():
                self._thread.join(timeout=ENDING)
            self._api.interrupt(self._thread)  # a round that goes on would have the connection, which others need
            while self._is_restoring() and self._clock() < deadline:
                self.round(self._clock(), SETTLED, deadline)
                if self._records:
                    time.sleep(0.2)
        left = [one for one in list(self._records.values()) if one.uid not in self._foreign]
        for one in left:  # the thread may be in the midst of the last answer
            words = "%s/%s: request: not restored yet: the next start does, or `kubectl qioi restore`"
            log.warning(words, one.namespace, one.name)

    def _is_restoring(self) -> bool:
        """Whether there are requests to restore of which the server has not said that it refuses that."""
        failed = {uid for uid, one in list(self._failed.items()) if one.refused}
        return bool(self._records.keys() - self._foreign - self._forbidden - failed)

    # ---- the thread

    def _run(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self.round(self._clock())
            except Exception:  # an error about one pod must not end the thread for all
                log.exception("kubernetes resize")

    def round(self, now: float, pause: float = PAUSE, until: float = float("inf")) -> None:
        """Do what is due for every pod, and for no more of them at ``until``.

        A failed change is tried again after ``pause`` seconds.
        """
        if not self._synced():
            return
        pods = self._pods()
        with self._lock:
            self._take_up(pods)
            self._refused = {uid: one for uid, one in self._refused.items() if uid in pods}
            self._foreign &= pods.keys()
            known = tuple(self._records)
        for uid in known:
            if self._clock() >= until:
                return
            pod, record = pods.get(uid), self._records.get(uid)  # what is wanted may have changed since the round began
            if record is None:
                continue
            if pod is not None and "spec" not in pod:
                continue  # it has too much to be kept: what it asks for is not known, and may be ours
            failed = self._failed.get(uid, NEVER)
            wait = pause if record.wanted is not None else max(pause, failed.pause)  # a raise was not refused
            if pod is None or now - failed.at >= wait:
                self._attend(record, None if pod is None else read_request(pod, record.container), now, pause)

    def _take_up(self, pods: Mapping[str, Object]) -> None:
        """Make records of the annotations that have none, as after a restart of the node. The caller holds the lock."""
        noted = {uid for uid, pod in pods.items() if original_of(pod) is not None}
        self._erased &= noted  # an annotation may be seen for a moment after it was removed
        self._untold &= noted
        for uid in noted - self._records.keys() - self._foreign - self._erased:
            record = left_over(pods[uid])
            if record is not None:
                self._records[uid] = record
                if not is_ledgers(pods[uid]):
                    self._strays.add(uid)
            elif uid not in self._untold:
                self._untold.add(uid)
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
            if do is Do.FORGET or cpu is None:
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
                self._erase(record, cpu)
                self._drop(record.uid)
            elif do is Do.GIVE_UP:
                self._give_up(record, cpu)
            self._forbidden.discard(record.uid)
            self._failed.pop(record.uid, None)
            self._say(record.uid, None)
        except ApiError as error:
            self._fail(record, error)
        except OSError as error:
            self._say(record.uid, f"journal {self._journal.file}: {error.strerror}: nothing is changed without it")

    def _due(self, record: Record, cpu: CpuRequest | None, now: float, pause: float) -> tuple[Do, int | None]:
        """Give the next step; a request that is not ours stays so, whatever it is set to meanwhile."""
        if cpu is not None and record.uid in self._foreign:
            return Do.GIVE_UP, None
        return step(record, cpu, now, pause)

    def _note_met(self, record: Record, cpu: CpuRequest | None) -> None:
        """Clear the problem of a request that is as it should be: the answer to our change may have been lost."""
        if cpu is not None and milli(cpu.asked) == record.target:
            self._say(record.uid, None)

    def _resize(self, record: Record, cpu: CpuRequest, target: int, now: float) -> None:
        """Journal and make the change, if the request is still as seen. ApiError, OSError."""
        current, text = milli(cpu.asked) or 0, record.original if target == record.found else f"{target}m"
        after = after_resize(record, current, target, now)
        self._update(record.uid, after)
        change = replacement(record, cpu, text)
        self._api.request("resize", "PATCH", f"{record.path}/resize", {}, change, JSON_PATCH)
        log.info("%s/%s: request %s -> %s", record.namespace, record.name, cpu.asked, text)

    def _annotate(self, record: Record) -> None:
        """Write the original to the pod's annotation, through its status, which cannot change what runs. ApiError."""
        metadata = {"uid": record.uid, "annotations": {ORIGINAL_ANNOTATION: record.original}}
        self._api.request("annotate", "PATCH", f"{record.path}/status", {}, {"metadata": metadata}, STRATEGIC)
        self._erased.discard(record.uid)

    def _erase(self, record: Record, cpu: CpuRequest) -> None:
        """Remove the pod's annotation if its request is still as seen; otherwise ours may be in force. ApiError."""
        if cpu.original is not None:
            self._erased.add(record.uid)
        try:
            self._api.request("annotate", "PATCH", f"{record.path}/status", {}, erasure(record, cpu), JSON_PATCH)
        except ApiError as error:
            # Somebody has put back what we have no right to. If we see this too late, the annotation tells us again.
            if error.status != FORBIDDEN or cpu.original is not None:
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
            if error.status != FORBIDDEN:
                raise
            kept = error if is_raised(cpu) else None
        if record.uid not in self._foreign:
            log.warning("%s/%s: somebody else has set its request to %s: left alone",
                        record.namespace, record.name, cpu.asked)  # fmt: skip
        self._foreign.add(record.uid)
        if kept is None:
            self._drop(record.uid)
        else:
            self._update(record.uid, record)
            raise kept

    def _fail(self, record: Record, error: ApiError) -> None:
        """Note a failure, and refuse the pod if the server would refuse the same request again."""
        if error.status == FORBIDDEN and record.uid in self._foreign:  # there is nothing that others have to put back
            self._failed[record.uid] = Failure(self._clock(), FORBIDDEN_PAUSE)
            self._forbidden.discard(record.uid)
            self._say(record.uid, None)
            return
        before = self._failed.get(record.uid, NEVER)
        self._failed[record.uid] = replace(before, at=self._clock())
        self._say(record.uid, f"request: {error}")
        final = error.status in (400, 403) or (error.status == 422 and "is invalid" in str(error))
        if final and record.wanted is not None:
            self._refuse(record, f"its resize was refused: {error}")
            return
        lacks = error.status == FORBIDDEN and record.uid not in self._strays and self._lacks_right(record)
        if lacks:
            self._failed[record.uid] = Failure(self._clock(), FORBIDDEN_PAUSE)
            self._note_forbidden(record, error)
        elif final and lacks is not None:
            self._forbidden.discard(record.uid)
            self._failed[record.uid] = Failure(self._clock(), min(REFUSED_PAUSE, max(PAUSE, 2 * before.pause)), True)
            if not before.refused:
                log.warning("%s/%s: request: not restored, and tried again ever more rarely: %s",
                            record.namespace, record.name, error)  # fmt: skip

    def _lacks_right(self, record: Record) -> bool | None:
        """Whether we may not restore a request, for limits and webhooks refuse by 403, too; ``None``: nobody tells."""
        try:
            return not all(may_patch(self._api, one, record.namespace) for one in ("resize", "status"))
        except ApiError:
            return None  # what was known before stays

    def _note_forbidden(self, record: Record, error: ApiError) -> None:
        """Say once that we have no right to restore a pod's request."""
        if record.uid not in self._forbidden:
            self._forbidden.add(record.uid)
            log.warning("%s/%s: request: no right to put it back: run `kubectl qioi restore`: %s",
                        record.namespace, record.name, error)  # fmt: skip

    def _refuse(self, record: Record, why: str) -> None:
        """Leave a pod to the other actuators for :data:`REFUSED` seconds, and restore its request."""
        log.warning("%s/%s: resize: %s: files are written instead", record.namespace, record.name, why)
        with self._lock:
            self._refused[record.uid] = self._clock() + REFUSED, why
            if record.uid in self._records:
                self._records[record.uid] = replace(self._records[record.uid], wanted=None)

    def _update(self, uid: str, record: Record) -> None:
        """Store a record in the journal; keep the newest wanted request, which may have changed meanwhile. OSError."""
        with self._lock:
            known = self._records.get(uid, record)
            self._records[uid] = replace(record, wanted=known.wanted)
            entries = self._entries()
        self._journal.store(entries)

    def _drop(self, uid: str) -> None:
        with self._lock:
            self._records.pop(uid, None)
            self._failed.pop(uid, None)
            self._problems.pop(uid, None)
            self._forbidden.discard(uid)
            self._strays.discard(uid)
            entries = self._entries()
        self._journal.store(entries)

    def _entries(self) -> list[Entry]:
        """Make the journal's entries; strays have none, so that they stay strays. The caller holds the lock."""
        return [entry_of(one) for uid, one in self._records.items() if uid not in self._strays]

    def _say(self, uid: str, problem: str | None) -> None:
        with self._lock:
            if problem is None:
                self._problems.pop(uid, None)
            else:
                self._problems[uid] = problem
