"""Read and set a thread's EEVDF slice through sched_getattr(2) and sched_setattr(2), which the C library does not wrap.

A fair thread's ``sched_runtime`` is its slice in ns; writing 0 restores the kernel's default (from Linux 6.12). Reading
never gives 0: a thread without a slice of its own reads as the default, one that sleeps as that of when it fell asleep.
The kernel scales the default with the number of CPUs that are online, and an operator may set it (base_slice_ns in
debugfs, sched). The call sets policy, nice and flags as well,
so they are read first and written back; utilisation clamps stay as they are while their flags are not set.
Sources: sched_setattr(2); kernel Documentation/scheduler/sched-eevdf.rst; include/uapi/linux/sched/types.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from qioi.kernel.errors import GoneError, KernelError

#: size, policy, flags, nice, priority, runtime, deadline, period, util_min, util_max.
LAYOUT = struct.Struct("=IIQiIQQQII")
#: System call numbers of sched_setattr and sched_getattr by machine (arch/*/tables, include/uapi/asm-generic/unistd.h).
CALLS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275), "ppc64le": (355, 356), "s390x": (345, 346)}
#: Scheduling policies that have slices: SCHED_OTHER and SCHED_BATCH.
FAIR = (0, 3)
RESET_ON_FORK = 1
#: The kernel's bounds on a slice in ns.
SHORTEST, LONGEST = 100_000, 100_000_000
#: The first kernel that has slices, and the first that is safe with them.
FIRST, SAFE = (6, 12), (6, 15)


class SliceError(KernelError):
    """A slice could not be read or set; the message names the thread and the reason."""


class ThreadGoneError(SliceError, GoneError):
    """The thread has ended."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """A thread's scheduling attributes, as the kernel gives and takes them. ``slice`` is in ns."""

    policy: int
    flags: int
    nice: int
    slice: int


class Scheduler(Protocol):
    """The kernel's side of slices."""

    def read(self, tid: int) -> Attributes:
        """Read a thread's attributes. SliceError."""
        ...

    def write(self, tid: int, attributes: Attributes) -> None:
        """Write a thread's attributes; a slice of 0 restores the default. SliceError."""
        ...

    def born(self, tid: int) -> int:
        """Give a thread's start time in clock ticks after boot, which with its number identifies the thread."""
        ...


class Kernel:
    """The kernel itself."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        machine = platform.machine()
        if machine not in CALLS:
            raise SliceError(f"slices: the system calls of {machine} are not known; accepted are {', '.join(CALLS)}")
        self._set, self._get = CALLS[machine]
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._proc = proc

    def read(self, tid: int) -> Attributes:
        """Read a thread's attributes."""
        buffer = ctypes.create_string_buffer(LAYOUT.size)
        if self._call(self._get, tid, buffer, LAYOUT.size, 0):
            raise failed(tid)
        _, policy, flags, nice, _, runtime, *_ = LAYOUT.unpack(buffer.raw)
        return Attributes(policy, flags & RESET_ON_FORK, nice, runtime)

    def write(self, tid: int, attributes: Attributes) -> None:
        """Write policy, nice, reset-on-fork and slice; all other attributes stay."""
        one = attributes
        text = LAYOUT.pack(LAYOUT.size, one.policy, one.flags, one.nice, 0, one.slice, 0, 0, 0, 0)
        if self._call(self._set, tid, ctypes.create_string_buffer(text, LAYOUT.size), 0):
            raise failed(tid)

    def born(self, tid: int) -> int:
        """Read field 22 of /proc/TID/stat (proc(5)); the name before it may hold anything."""
        try:
            return int((self._proc / str(tid) / "stat").read_bytes().rpartition(b")")[2].split()[19])
        except (OSError, IndexError, ValueError):
            raise ThreadGoneError(f"thread {tid}: gone") from None


def failed(tid: int) -> SliceError:
    """Make the error that explains errno."""
    number = ctypes.get_errno()
    kind = ThreadGoneError if number == errno.ESRCH else SliceError
    return kind(f"slice of thread {tid}: {os.strerror(number)}")


@cache
def sleeper() -> int:
    """Give the number of a thread of ours that sleeps: asking of it does not wait until a full host has run it."""
    thread = threading.Thread(target=threading.Event().wait, name="default slice", daemon=True)
    thread.start()
    assert thread.native_id is not None
    return thread.native_id


def default_slice(scheduler: Scheduler) -> int | None:
    """Find the kernel's default slice of now in ns; ``None``: the kernel has no slices."""
    tid = sleeper()
    try:
        scheduler.write(tid, Attributes(0, 0, 0, 2 * SHORTEST))
        taken = scheduler.read(tid).slice == 2 * SHORTEST
        scheduler.write(tid, Attributes(0, 0, 0, 0))
        return scheduler.read(tid).slice if taken else None
    except SliceError:
        return None


def why_not(release: str, *, early: bool) -> str | None:
    """Say why slices are not used on this kernel release; ``None``: they are. ``early`` accepts :data:`FIRST` too."""
    match = re.match(r"(\d+)\.(\d+)", release)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version >= (FIRST if early else SAFE):
        return None
    needed = ".".join(str(number) for number in (FIRST if early else SAFE))
    hint = "" if version < FIRST or early else " (slices_before_6_15: true takes the risk)"
    return f"kernel {release} is older than {needed}{hint}"
