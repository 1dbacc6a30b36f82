"""A thread's EEVDF slice in ns, and how long it should be. The system calls are in eevdf.py.

Threads inherit a slice from the one that made them: one that is new in a group and has a value of ours has it from
there, and its original is the default, which is 0 here as it is for the kernel.
"""

from __future__ import annotations

from dataclasses import replace

from qioi.controller.levers.eevdf import FAIR, Scheduler, SliceError, ThreadGoneError
from qioi.controller.levers.lever import Lever, ThreadId

FILE = "sched_runtime"
#: What a thread reads as that has no slice, because its policy is not a fair one.
NOT_FAIR = -1


class Slices(Lever[int]):
    """All threads' slices; ``default`` is the kernel's slice in ns."""

    file = FILE
    undone = "no slice is set"
    costly = True  # a thread's birthday takes longer to read than its slice to set, and there are thirty thousand

    def __init__(self, scheduler: Scheduler, default: int) -> None:
        self._scheduler = scheduler
        self._default = default

    def identity(self, tid: int) -> ThreadId:
        """Tell which thread has the number now. ThreadGoneError."""
        return ThreadId(tid, self._scheduler.born(tid))

    def gone(self, tid: int) -> ThreadGoneError:
        """Say that another thread has the number."""
        return ThreadGoneError(f"thread {tid}: gone, and another one has its number")

    def read(self, tid: int) -> int:
        """Read a slice."""
        found = self._scheduler.read(tid)
        if found.policy not in FAIR:
            return NOT_FAIR
        return 0 if found.slice == self._default else found.slice

    def write(self, tid: int, value: int) -> None:
        """Set a slice, and keep policy, nice and flags."""
        self._scheduler.write(tid, replace(self._scheduler.read(tid), slice=value))

    def original(self, tid: int, value: int) -> int:
        """Refuse a thread that has no slice."""
        if value == NOT_FAIR:
            raise SliceError(f"thread {tid}: its policy has no slices")
        return value


def size(run: float, default: int, shortest: int, before: int | None) -> int | None:
    """Give the slice in ns for a component that runs for ``run`` seconds at a stretch; ``None``: the default will do.

    Twice that, so that it can mostly finish what it has begun: measured, a slice that is shorter than what a process
    runs hurts it. One that was given ``before`` stays until it is off by more than a third.
    """
    wanted = max(shortest, round(2e9 * run))
    if wanted >= 0.8 * default:
        return None
    if before is not None and 0.75 * before <= wanted <= 1.33 * before:
        return before
    return wanted
