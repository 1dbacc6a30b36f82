"""What is to be done next about one pod's CPU request: a plain function of what we want and what the API shows.

As with shares in files, the original is on record before the first change, every change is made only from a value
that is ours or the original, and what somebody else has set is left alone. The record is twofold: an annotation on the
pod, which lives as long as the changed request does, and the journal on the node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from qioi.controller.guard.rule import Whose, whose
from qioi.kubernetes.pods import Pod
from qioi.kubernetes.requests import hindrance, milli, shares_of
from qioi.model import MAX_SHARES, MIN_SHARES

#: Least seconds between two changes of one pod's request, each of which the kubelet and the API server work for.
PAUSE = 5.0
#: A request is moved only by this part of itself, unless it goes back to its original.
STEP = 0.1
#: Requests that are remembered as ours while none of them is seen: the watch may be behind, or the server refuse all.
UNSEEN = 8
#: Seconds for which a pod whose resize was refused is left to the other actuators.
REFUSED = 600.0


class Do(StrEnum):
    """One thing to be done."""

    NOTHING = "nothing"
    RECORD = "record"  # put the original on the pod
    RESIZE = "resize"
    ERASE = "erase"  # all is as it was: take the original off the pod
    GIVE_UP = "give up"  # somebody else has changed the request: the same, but the request stays
    FORGET = "forget"  # the pod is gone


@dataclass(frozen=True, slots=True)
class Record:
    """One pod whose request is ours, in thousandths of a CPU. ``ours`` are the values that may be in force by us."""

    namespace: str
    name: str
    uid: str
    container: str
    original: str  # as it was written
    ours: tuple[int, ...] = ()
    wanted: int | None = None  # ``None``: the original
    noted: bool = False  # the annotation is there
    changed: float = float("-inf")  # monotonic time of the last change

    @property
    def found(self) -> int:
        """The original."""
        return milli(self.original) or 0

    @property
    def path(self) -> str:
        """Where the API has the pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def request_for(record: Record, pod: Pod, shares: int) -> int:
    """Give the request that makes the kubelet set ``shares``.

    It stays below the container's limit: one that reaches it could make the pod Guaranteed, which is refused.
    """
    wanted = -(-max(MIN_SHARES, min(MAX_SHARES, shares)) * 1000 // 1024)
    limit = milli(pod.cpu.limit)
    return max(record.found, wanted if limit is None else min(wanted, limit - 1))


def begin(pod: Pod) -> Record | None:
    """Make the record of a pod that is not changed yet; ``None`` if its request is not ours to move."""
    if hindrance(pod.qos, pod.uid != pod.group_uid, pod.cpu) is not None:
        return None
    return Record(pod.namespace, pod.name, pod.uid, pod.main, pod.cpu.asked)


def step(record: Record, pod: Pod | None, now: float, pause: float = PAUSE) -> tuple[Do, int | None]:
    """Say what is to be done next, and for a resize the request to ask for.

    ``pod`` may be older than our last change: whatever is done is done only if the server has it as it is seen here.
    """
    if pod is None or pod.uid != record.uid:
        return Do.FORGET, None
    current = milli(pod.cpu.asked)
    if current is None or whose(current, record.found, record.ours) is Whose.FOREIGN:
        return Do.GIVE_UP, None
    target = record.found if record.wanted is None else record.wanted
    if target == record.found:
        if current != target:
            return Do.RESIZE, target
        done = len(record.ours) == 0 or now - record.changed >= pause  # a change that is still on its way may come yet
        return (Do.ERASE, None) if done else (Do.NOTHING, None)
    if abs(target - current) < STEP * current or now - record.changed < pause:
        return Do.NOTHING, None
    # Somebody may have taken the annotation off since, as `kubectl qioi restore` does.
    return (Do.RESIZE if record.noted and pod.cpu.original is not None else Do.RECORD), target


def refused(record: Record, pod: Pod) -> str | None:
    """Say why the kubelet does not do what we have asked for, if so."""
    return pod.cpu.pending if record.wanted is not None and milli(pod.cpu.asked) != record.found else None


def after_resize(record: Record, current: int, asked: int, now: float) -> Record:
    """Note what may be in force from now on: also what was asked for before, until that is what is seen."""
    unseen = () if record.ours[-1:] in ((), (current,)) else record.ours[-UNSEEN:]
    before = dict.fromkeys(one for one in (*unseen, current) if one != asked)
    return replace(record, ours=(*before, asked), changed=now)


def in_force(record: Record, pod: Pod) -> int:
    """Give the shares that the kubelet has made of the request so far."""
    return shares_of(milli(pod.cpu.actual) or milli(pod.cpu.asked) or record.found)
