"""Decide the next step for one pod's CPU request: a pure function of what is wanted and what the API shows.

Like for shares in files, the original is recorded before the first change, a change is made only from a value that is
ours or the original, and a foreign value is left alone. The original is recorded twice: in an annotation on the pod,
which lives as long as the changed request, and in the journal on the node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from qioi.controller.guard.rule import Whose, whose
from qioi.kubernetes.pods import Pod
from qioi.kubernetes.requests import CpuRequest, hindrance, is_step, milli, shares_of
from qioi.model import MAX_SHARES, MIN_SHARES

#: Least seconds between two changes of one pod's request, each of which the kubelet and the API server work for.
PAUSE = 5.0
#: Most requests that are remembered as ours before one is seen: the watch may be late, or the server refuse them all.
UNSEEN = 8
#: Seconds for which a pod whose resize was refused is left to the other actuators.
REFUSED = 600.0


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
        return (Do.ERASE, None) if done else (Do.NOTHING, None)
    if not is_step(current, target) or now - record.changed < pause:
        return Do.NOTHING, None
    # Somebody may have removed the annotation since, like `kubectl qioi restore` does.
    return (Do.RESIZE if record.noted and cpu.original is not None else Do.RECORD), target


def refused(record: Record, cpu: CpuRequest) -> str | None:
    """Say why the kubelet refuses our request; ``None`` if it does not."""
    return cpu.pending if record.wanted is not None and milli(cpu.asked) != record.found else None


def after_resize(record: Record, current: int, asked: int, now: float) -> Record:
    """Note the values that may be in force after a resize: earlier requests count until the newest is seen."""
    unseen = () if record.ours[-1:] in ((), (current,)) else record.ours[-UNSEEN:]
    before = dict.fromkeys(one for one in (*unseen, current) if one != asked)
    return replace(record, ours=(*before, asked), changed=now)


def in_force(record: Record, cpu: CpuRequest) -> int:
    """Give the shares that the kubelet has set for the request so far."""
    return shares_of(milli(cpu.actual) or milli(cpu.asked) or record.found)
