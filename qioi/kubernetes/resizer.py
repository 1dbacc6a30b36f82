"""Moves pods' CPU requests by their `resize` subresource, in a thread of its own; the kubelet then writes the shares.

The scheduler sees such a change, so it is opted in to twice: by the node's configuration and by each policy. What is
done when is :func:`~qioi.kubernetes.resizes.step`'s to say. Load on the API server: two requests for a pod's first
change, one for each later one, at most one in 5 s a pod, two for the way back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.levers.lever import PodId
from qioi.kubernetes.client import STRATEGIC, Api, ApiError
from qioi.kubernetes.pods import Pod
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION, hindrance, milli
from qioi.kubernetes.resizes import PAUSE, REFUSED, Do, Record, after_resize, begin, refused, request_for, step

log = logging.getLogger("qioi")

#: Seconds between two looks at what is due.
EVERY = 1.0
#: Seconds that putting everything back may take at the end, and that the watch has to show a change by then.
ENDING, SETTLED = 10.0, 1.0
JSON_PATCH = "application/json-patch+json"
FILE = "requests.cpu"


class Resizer:
    """All pods whose requests are ours. ``pods`` gives this node's as the API shows them, by uid."""

    def __init__(
        self, api: Api, state_dir: Path, pods: Callable[[], Mapping[str, Pod]], synced: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._api = api
        self._journal = Journal(state_dir, name="requests")
        self._pods = pods
        self._synced = synced
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}
        self._refused: dict[str, tuple[float, str]] = {}  # by uid: until when, and why
        self._failed: dict[str, float] = {}  # by uid: when the API server did not do what it was asked for
        self._foreign: set[str] = set()
        self._erased: set[str] = set()  # whose annotation is off, but still seen
        self._problems: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qioi-resizer", daemon=True)

    def start(self) -> None:
        """Begin; what a daemon before this one has left changed is put back first. OSError."""
        for problem in (loaded := self._journal.load()).problems:
            log.warning("%s: %s: the annotations on the pods are what is left", self._journal.file, problem)
        self._records = {one.uid: one for one in map(record_of, loaded.entries) if one is not None}
        self._thread.start()

    # ---- for the loop

    def takes(self, pod: Pod) -> str | None:
        """Say why a pod is not acted on by its request; ``None`` if it is."""
        with self._lock:
            until, why = self._refused.get(pod.uid, (0.0, ""))
            if self._clock() < until:
                return why
            if pod.uid in self._foreign:
                return "somebody else has changed its request: left alone"
            return None if pod.uid in self._records else hindrance(pod.qos, pod.uid != pod.group_uid, pod.cpu)

    def want(self, pod: Pod, shares: int | None) -> None:
        """Have a pod's request be what makes ``shares``; ``None`` for what it was. Never waits."""
        with self._lock:
            record = self._records.get(pod.uid)
            if record is None and shares is not None:
                record = begin(pod)
                if record is not None and request_for(record, pod, shares) == record.found:
                    record = None
            if record is not None:
                wanted = None if shares is None else request_for(record, pod, shares)
                self._records[pod.uid] = replace(record, wanted=wanted)

    def record(self, uid: str) -> Record | None:
        """Give what is known of a pod whose request is ours, or on its way back."""
        with self._lock:
            return self._records.get(uid)

    def keep_only(self, uids: set[str]) -> None:
        """Put back the requests of all pods but these."""
        with self._lock:
            for uid, record in self._records.items():
                if uid not in uids and record.wanted is not None:
                    self._records[uid] = replace(record, wanted=None)

    def problem(self, uid: str) -> str | None:
        """Say why a pod's request could not be changed."""
        with self._lock:
            return self._problems.get(uid)

    def close(self) -> None:
        """Put every request back, and end; what can't be reached in time is the next start's."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=12.0)
        deadline = self._clock() + ENDING
        while self._records and self._clock() < deadline:
            self.keep_only(set())
            self.round(self._clock(), SETTLED)
            if self._records:
                time.sleep(0.2)
        for one in self._records.values():
            log.warning("%s/%s: request: not put back yet: the next start does", one.namespace, one.name)

    # ---- the thread

    def _run(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self.round(self._clock())
            except Exception:  # nothing about one pod may end it for all
                log.exception("kubernetes resize")

    def round(self, now: float, pause: float = PAUSE) -> None:
        """Do what is due for every pod; what failed is tried again after ``pause`` seconds."""
        if not self._synced():
            return
        pods = self._pods()
        with self._lock:
            noted = {uid for uid, pod in pods.items() if pod.cpu.original is not None}
            self._erased &= noted  # an annotation may be seen for a moment after it was taken off
            for uid in noted - self._records.keys() - self._foreign - self._erased:
                self._records[uid] = left_over(pods[uid])
            self._refused = {uid: one for uid, one in self._refused.items() if uid in pods}
            self._foreign &= pods.keys()
            records = tuple(self._records.values())
        for record in records:
            if now - self._failed.get(record.uid, float("-inf")) >= pause:
                self._attend(record, pods.get(record.uid), now, pause)

    def _attend(self, record: Record, pod: Pod | None, now: float, pause: float) -> None:
        """Do what is due for one pod."""
        if pod is not None and (why := refused(record, pod)) is not None:
            self._refuse(record, why)
            record = replace(record, wanted=None)
        do, target = step(record, pod, now, pause)
        if do is Do.NOTHING:
            return
        try:
            if do is Do.FORGET or pod is None:
                self._drop(record.uid)
                return
            if do is Do.RECORD:
                self._update(record.uid, record)  # the journal first, then the pod's own record, then the change
                self._annotate(record)
                record = replace(record, noted=True)
                self._update(record.uid, record)
            if target is not None:
                self._resize(record, pod, target, now)
            elif do in (Do.ERASE, Do.GIVE_UP):
                self._erase(record, pod)
                if do is Do.GIVE_UP:
                    log.warning("%s/%s: somebody else has set its request to %s: left alone",
                                record.namespace, record.name, pod.cpu.asked)  # fmt: skip
                    self._foreign.add(record.uid)
                self._drop(record.uid)
            self._say(record.uid, None)
        except ApiError as error:
            self._fail(record, error)
        except OSError as error:
            self._say(record.uid, f"journal {self._journal.file}: {error.strerror}: nothing is changed without it")

    def _resize(self, record: Record, pod: Pod, target: int, now: float) -> None:
        """Change the request, if it still is what was seen; the journal knows before."""
        current, text = milli(pod.cpu.asked) or 0, record.original if target == record.found else f"{target}m"
        after = after_resize(record, current, target, now)
        self._update(record.uid, after)
        change = replacement(record, pod, text)
        self._api.request("resize", "PATCH", f"{record.path}/resize", {}, change, JSON_PATCH)
        log.info("%s/%s: request %s -> %s", record.namespace, record.name, pod.cpu.asked, text)

    def _annotate(self, record: Record) -> None:
        """Put the original on the pod. Through its status, which can't change what runs."""
        metadata = {"uid": record.uid, "annotations": {ORIGINAL_ANNOTATION: record.original}}
        self._api.request("annotate", "PATCH", f"{record.path}/status", {}, {"metadata": metadata}, STRATEGIC)
        self._erased.discard(record.uid)

    def _erase(self, record: Record, pod: Pod) -> None:
        """Take the original off the pod, if its request still is what was seen: else ours may be in force yet."""
        if pod.cpu.original is not None:
            self._erased.add(record.uid)
        self._api.request("annotate", "PATCH", f"{record.path}/status", {}, erasure(record, pod), JSON_PATCH)

    def _fail(self, record: Record, error: ApiError) -> None:
        """Tell what will not be done from what may be done later."""
        self._failed[record.uid] = self._clock()
        self._say(record.uid, f"request: {error}")
        final = error.status in (400, 403) or (error.status == 422 and "is invalid" in str(error))
        if final and record.wanted is not None:
            self._refuse(record, f"its resize was refused: {error}")

    def _refuse(self, record: Record, why: str) -> None:
        """Leave a pod to the other actuators for some time, and put its request back."""
        log.warning("%s/%s: resize: %s: files are written instead", record.namespace, record.name, why)
        with self._lock:
            self._refused[record.uid] = self._clock() + REFUSED, why
            if record.uid in self._records:
                self._records[record.uid] = replace(self._records[record.uid], wanted=None)

    def _update(self, uid: str, record: Record) -> None:
        """Note what was done, on the disk; what is wanted may have changed meanwhile. OSError."""
        with self._lock:
            known = self._records.get(uid, record)
            self._records[uid] = replace(record, wanted=known.wanted)
            entries = [entry_of(one) for one in self._records.values()]
        self._journal.store(entries)

    def _drop(self, uid: str) -> None:
        with self._lock:
            self._records.pop(uid, None)
            self._failed.pop(uid, None)
            self._problems.pop(uid, None)
            entries = [entry_of(one) for one in self._records.values()]
        self._journal.store(entries)

    def _say(self, uid: str, problem: str | None) -> None:
        with self._lock:
            if problem is None:
                self._problems.pop(uid, None)
            else:
                self._problems[uid] = problem


def entry_of(record: Record) -> Entry:
    """Write a record for the journal."""
    path = f"{record.namespace}/{record.name}/{record.container}"
    return Entry(path, FILE, PodId(record.uid, record.original), record.found, record.ours)


def record_of(entry: Entry) -> Record | None:
    """Read a record of the journal: what is on it is to go back."""
    path, pod = entry.path.split("/"), entry.identity
    if not isinstance(pod, PodId) or entry.file != FILE or len(path) != 3:
        return None
    return Record(path[0], path[1], pod.uid, path[2], pod.asked, entry.ours, noted=True)


def is_raised(pod: Pod) -> bool:
    """Whether a pod's annotation can be true: QiOi only ever raises, and whoever owns a pod may write there."""
    original, asked = milli(pod.cpu.original or ""), milli(pod.cpu.asked)
    return original is not None and asked is not None and 0 <= original <= asked


def left_over(pod: Pod) -> Record:
    """Make a record of a pod's annotation, where the journal is lost: what it asks for now was ours, if it is raised.

    If not, nothing of the request is ours: it stays, and the annotation is taken off.
    """
    ours = (milli(pod.cpu.asked) or 0,) if is_raised(pod) else ()
    return Record(pod.namespace, pod.name, pod.uid, pod.main, pod.cpu.original or "", ours, noted=True)


def request_path(pod: Pod) -> str:
    """Say where in a pod's object its main container's request is."""
    return f"/spec/containers/{pod.cpu.position}/resources/requests/cpu"


def replacement(record: Record, pod: Pod, request: str) -> list[dict[str, str]]:
    """Give the JSON patch that makes a pod ask for ``request``, if all is as seen."""
    return [*as_seen(record, pod), {"op": "replace", "path": request_path(pod), "value": request}]


def erasure(record: Record, pod: Pod) -> list[dict[str, str]]:
    """Give the JSON patch that takes the original off a pod, if all is as seen; where it is off, the tests alone."""
    if pod.cpu.original is None:
        return as_seen(record, pod)
    where = "/metadata/annotations/" + ORIGINAL_ANNOTATION.replace("/", "~1")
    return [*as_seen(record, pod), {"op": "remove", "path": where}]


def as_seen(record: Record, pod: Pod) -> list[dict[str, str]]:
    """Give the part of a JSON patch by which the server refuses it if the pod or its request is another by now."""
    tests = [("/metadata/uid", record.uid), (f"/spec/containers/{pod.cpu.position}/name", record.container)]
    if pod.cpu.asked:
        tests.append((request_path(pod), pod.cpu.asked))
    return [{"op": "test", "path": path, "value": value} for path, value in tests]
