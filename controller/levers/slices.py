"""The lever of a thread's EEVDF slice in ns, and the length it should have. The system calls are in eevdf.py.

A thread inherits its slice from the thread that made it. So a new thread of a group with a value of ours has inherited
it, and its original is the default, which is 0 here and for the kernel.
"""

from __future__ import annotations

from dataclasses import replace

from qioi.controller.levers.eevdf import FAIR, Scheduler, SliceError, ThreadGoneError, default_slice
from qioi.controller.levers.lever import Identity, Lever, ThreadId

FILE = "sched_runtime"
#: The value of a thread that has no slice, because its scheduling policy is not a fair one.
NOT_FAIR = -1


class Slices(Lever[int]):
    """The lever of threads' slices; ``default`` is the kernel's slice in ns as last looked at."""

    file = FILE
    undone = "no slice is set"
    costly = True  # reading a thread's start time takes longer than setting its slice, for thirty thousand threads

    def __init__(self, scheduler: Scheduler, default: int) -> None:
        self._scheduler = scheduler
        self.default = default
        self._defaults = {default}  # a thread that sleeps has that of before

    def look(self) -> int:
        """Look at the default again, which may have moved; give it in ns."""
        self.default = default_slice(self._scheduler) or self.default
        self._defaults.add(self.default)
        return self.default

    def identity(self, tid: int) -> ThreadId:
        """Identify the thread that has the number now. ThreadGoneError."""
        return ThreadId(tid, self._scheduler.born(tid))

    def gone(self, tid: int) -> ThreadGoneError:
        """Make the error that says that another thread has the number."""
        return ThreadGoneError(f"thread {tid}: gone, and another one has its number")

    def read(self, tid: int) -> int:
        """Read a slice; 0 for the default, :data:`NOT_FAIR` for a thread without slices. SliceError."""
        found = self._scheduler.read(tid)
        if found.policy not in FAIR:
            return NOT_FAIR
        return 0 if found.slice in self._defaults else found.slice

    def write(self, tid: int, value: int, identity: Identity) -> None:
        """Set a slice, and keep policy, nice and flags. SliceError. The kernel takes a thread's number alone."""
        del identity
        self._scheduler.write(tid, replace(self._scheduler.read(tid), slice=value))

    def original(self, tid: int, value: int) -> int:
        """Refuse a thread that has no slice. SliceError."""
        if value == NOT_FAIR:
            raise SliceError(f"thread {tid}: its policy has no slices")
        return value

    def says(self, value: int) -> str:
        """Describe a value for an outcome's message."""
        return "a policy without slices" if value == NOT_FAIR else f"a slice of {value or self.default} ns"


def size(run: float, default: int, shortest: int, before: int | None) -> int | None:
    """Give the slice in ns for a component that runs for ``run`` seconds at a stretch; ``None``: the default suffices.

    The slice is twice ``run``, so that the component mostly finishes what it began: a shorter one was measured to hurt
    it. The slice ``before`` stays until it is off by more than a third. It is odd, so that it is told from a default:
    the kernel's are 0.7 ms times a number, and operators set round ones, of which ``shortest`` is the least.
    """
    wanted = max(shortest, round(2e9 * run)) | 1
    if wanted >= 0.8 * default:
        return None
    if before is not None and 0.75 * before <= wanted <= 1.33 * before:
        return before
    return wanted
