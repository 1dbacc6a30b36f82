"""Decide the next step for one pod's CPU request: a pure function of what is wanted and what the API shows.

Like for shares in files, the original is recorded before the first change, a change is made only from a value that is
ours or the original, and a foreign value is left alone. The original is recorded twice: in an annotation on the pod,
which lives as long as the changed request, and in the journal on the node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus

from qioi.controller.guard.journal import Entry
from qioi.controller.guard.rule import Whose, whose
from qioi.controller.levers.lever import PodId
from qioi.kubernetes.client import ApiError, Object
from qioi.kubernetes.pods import Pod, told_container
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION, CpuRequest, hindrance, is_step, milli, read_request, shares_of
from qioi.model import MAX_SHARES, MIN_SHARES

#: Least seconds between two changes of one pod's request, each of which the kubelet and the API server work for.
PAUSE = 5.0
#: The JSON path of the annotation.
NOTED = "/metadata/annotations/" + ORIGINAL_ANNOTATION.replace("/", "~1")
#: Most requests that are remembered as ours before one is seen: the watch may be late, or the server refuse them all.
#: From then on the last one is asked for again, for any of them may be in force.
UNSEEN = 8
#: Seconds for which a pod whose resize was refused is left to the other actuators.
REFUSED = 600.0
#: How a server words that a test of a JSON patch has failed (apimachinery: NewGenericServerResponse).
OUTDATED = "the server rejected our request due to an error in our request"
#: What stands in the journal's entries in place of a file.
FILE = "requests.cpu"


class Do(StrEnum):
    """The next step."""

    NOTHING = "nothing"
    RECORD = "record"  # write the annotation with the original, then resize
    RESIZE = "resize"
    ERASE = "erase"  # the request is restored: remove the annotation
    GIVE_UP = "give up"  # somebody else changed the request: remove the annotation, leave the request alone
    FORGET = "forget"  # the pod is gone; a pod that is a component no longer is restored


@dataclass(frozen=True, slots=True)
class Record:
    """One pod whose request we move, in thousandths of a CPU. ``ours`` are our values that may be in force."""

    namespace: str
    name: str
    uid: str
    container: str
    original: str  # as written in the pod
    ours: tuple[int, ...] = ()
    wanted: int | None = None  # ``None``: the original
    noted: bool = False  # the annotation is written
    changed: float = float("-inf")  # monotonic time of the last change

    @property
    def found(self) -> int:
        """The original in thousandths of a CPU."""
        return milli(self.original) or 0

    @property
    def target(self) -> int:
        """The request to bring about, in thousandths of a CPU."""
        return self.found if self.wanted is None else self.wanted

    @property
    def is_untouched(self) -> bool:
        """Whether nothing is known to be changed on the pod, and no change of its request was asked for."""
        return not self.noted and len(self.ours) == 0

    @property
    def path(self) -> str:
        """The pod's path in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def request_for(record: Record, cpu: CpuRequest, shares: int) -> int:
    """Give the request, in thousandths of a CPU, for which the kubelet sets ``shares``, or the most below the limit."""
    wanted = -(-max(MIN_SHARES, min(MAX_SHARES, shares)) * 1000 // 1024)
    return max(record.found, wanted if cpu.most is None else min(wanted, cpu.most))


def begin(pod: Pod) -> Record | None:
    """Make the record of a pod that is not changed yet; ``None`` if its request may not be moved."""
    if hindrance(pod.qos, pod.uid != pod.group_uid, pod.cpu) is not None:
        return None
    return Record(pod.namespace, pod.name, pod.uid, pod.main, pod.cpu.asked)


def is_raised(cpu: CpuRequest) -> bool:
    """Whether a pod's annotation is plausible: QiOi only raises requests, but a pod's users may write annotations."""
    original, asked = milli(cpu.original or ""), milli(cpu.asked)
    return original is not None and asked is not None and 0 <= original <= asked


def left_over(pod: Object) -> Record | None:
    """Make a record from a pod's annotation, where the journal is lost; ``None`` if nothing tells of which container.

    A raised request is ours. One that is not raised is not ours: it stays, and the annotation is removed.
    """
    container = told_container(pod)
    if container is None:
        return None
    cpu, metadata = read_request(pod, container), pod["metadata"]
    name = str(metadata.get("namespace", "")), str(metadata["name"])
    ours = (milli(cpu.asked) or 0,) if is_raised(cpu) else ()
    return Record(*name, str(metadata["uid"]), container, cpu.original or "", ours, noted=True)


def entry_of(record: Record) -> Entry:
    """Make the journal's entry of a record."""
    path = f"{record.namespace}/{record.name}/{record.container}"
    return Entry(path, FILE, PodId(record.uid, record.original), record.found, record.ours)


def record_of(entry: Entry) -> Record | None:
    """Make the record of a journal's entry, whose request is to be restored; ``None`` for other entries."""
    path, pod = entry.path.split("/"), entry.identity
    if not isinstance(pod, PodId) or entry.file != FILE or len(path) != 3:
        return None
    return Record(path[0], path[1], pod.uid, path[2], pod.asked, entry.ours, noted=True)


def step(record: Record, cpu: CpuRequest | None, now: float, pause: float = PAUSE) -> tuple[Do, int | None]:
    """Give the next step, and for a resize the request to ask for.

    ``cpu`` is what the API shows of the record's container, ``None`` once the pod is gone. It may be older than our
    last change, so the caller makes the step only if the server's pod is as seen here.
    """
    if cpu is None:
        return Do.FORGET, None
    current = milli(cpu.asked)
    if current is None or whose(current, record.found, record.ours) is Whose.FOREIGN:
        return Do.GIVE_UP, None
    target = record.target
    if target == record.found:
        if current != target:
            return Do.RESIZE, target
        done = len(record.ours) == 0 or now - record.changed >= pause  # an earlier change may still arrive
        return (Do.ERASE, None) if done and kept_raised(record, cpu) is None else (Do.NOTHING, None)
    if not is_step(current, target) or now - record.changed < pause:
        return Do.NOTHING, None
    if len(record.ours) > UNSEEN and record.ours[-1] != current:
        target = record.ours[-1]
    # Somebody may have removed the annotation since, like `kubectl qioi restore` does.
    return (Do.RESIZE if record.noted and cpu.original is not None else Do.RECORD), target


def refused(record: Record, cpu: CpuRequest) -> str | None:
    """Say why the kubelet refuses our request; ``None`` if it does not.

    A pod has one condition for all its resources. Where our request is in force the condition is about another one.
    """
    asked = milli(cpu.asked)
    ours = record.wanted is not None and asked not in (record.found, milli(cpu.actual))
    return cpu.pending if ours else None


def kept_raised(record: Record, cpu: CpuRequest) -> str | None:
    """Say why the kubelet keeps a restored request raised; ``None`` if it does not, or nothing tells what is in force.

    It applies a pod's resources together, so it may wait for a resize of the memory that somebody else has asked for.
    """
    raised = len(record.ours) > 0 and (milli(cpu.actual) or 0) > record.found
    return cpu.pending if raised and milli(cpu.asked) == record.found else None


def after_resize(record: Record, current: int, asked: int, now: float) -> Record:
    """Note the values that may be in force after a resize: earlier requests count until the newest is seen."""
    unseen = () if record.ours[-1:] in ((), (current,)) else record.ours
    before = dict.fromkeys(one for one in (*unseen, current) if one != asked)
    return replace(record, ours=(*before, asked), changed=now)


def in_force(record: Record, cpu: CpuRequest) -> int:
    """Give the shares that the kubelet has set for the request so far."""
    return shares_of(milli(cpu.actual) or milli(cpu.asked) or record.found)


def request_path(cpu: CpuRequest) -> str:
    """Give the JSON path of a container's request in its pod's object."""
    return f"/spec/containers/{cpu.position}/resources/requests/cpu"


def replacement(record: Record, cpu: CpuRequest, request: str) -> list[dict[str, str]]:
    """Make the JSON patch that sets a pod's request to ``request``, if the pod is as seen.

    So is its annotation: one that is erased meanwhile, since the answer was long in coming, would tell nobody of it.
    """
    noted = [{"op": "test", "path": NOTED, "value": cpu.original}] if cpu.original is not None else []
    return [*as_seen(record, cpu), *noted, {"op": "replace", "path": request_path(cpu), "value": request}]


def erasure(record: Record, cpu: CpuRequest) -> list[dict[str, str]]:
    """Make the JSON patch that removes a pod's annotation, if the pod is as seen; without one, only the tests."""
    if cpu.original is None:
        return as_seen(record, cpu)
    return [*as_seen(record, cpu), {"op": "remove", "path": NOTED}]


def as_seen(record: Record, cpu: CpuRequest) -> list[dict[str, str]]:
    """Make the tests of a JSON patch, by which the server refuses it if the pod or its request has changed."""
    tests = [("/metadata/uid", record.uid), (f"/spec/containers/{cpu.position}/name", record.container)]
    if cpu.asked:
        tests.append((request_path(cpu), cpu.asked))
    return [{"op": "test", "path": path, "value": value} for path, value in tests]


def is_outdated(error: ApiError) -> bool:
    """Whether the server refused a JSON patch because the pod is not as seen; by the same status webhooks refuse."""
    return error.status == HTTPStatus.UNPROCESSABLE_ENTITY and str(error).endswith(f": 422 {OUTDATED}")
