"""CPU time of the kernel itself: its threads, and interrupts where these are charged to nobody else.

A lab that flushes to a disk has the kernel's threads write for it, and the device interrupt. No control group accounts
for the threads, and neither is a process outside of the lab. A kernel that is built without IRQ_TIME_ACCOUNTING charges
an interrupt to the task that it interrupts (Linux, kernel/sched/cputime.c), so that the task's group has it.
"""

from __future__ import annotations

import gzip
import os
import platform
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

#: Id and start time (in ticks since boot): another thread may get the id of one that has ended.
Thread = tuple[int, int]
#: Interrupts among the threads; no thread has this id.
INTERRUPTS: Thread = (0, 0)
#: The process whose children are the kernel's threads (Linux, kernel/kthread.c).
KTHREADD = 2
#: Threads whose time is among that of softirqs, too.
SOFTIRQ_THREADS = "ksoftirqd/"
TICKS = os.sysconf("SC_CLK_TCK")


def kernel_seconds(proc: Path = Path("/proc"), boot: Path = Path("/boot")) -> dict[Thread, float]:
    """Give the CPU seconds so far of each of the kernel's threads, and of interrupts that no task is charged for."""
    irq, softirq = (int(ticks) / TICKS for ticks in (proc / "stat").read_text(encoding="utf-8").split(maxsplit=8)[6:8])
    # A kernel that accounts for interrupts at each tick sees none of them, but softirqs.
    apart = irq > 0 and accounts_apart(proc, boot)
    seconds = {
        thread: used for thread, name, used in thread_seconds(proc) if not (apart and name.startswith(SOFTIRQ_THREADS))
    }
    return seconds | ({INTERRUPTS: irq + softirq} if apart else {})


class KernelWork:
    """Adds up what the kernel itself works, from one look to the next.

    What a thread did between the last look at it and its end is unknown, so it may be too little, never too much.
    """

    def __init__(self, proc: Path = Path("/proc"), boot: Path = Path("/boot")) -> None:
        self._proc, self._boot = proc, boot
        self._before: Mapping[Thread, float] = kernel_seconds(proc, boot)
        self._seconds = 0.0

    def seconds(self) -> float:
        """Look again; give the CPU seconds since the first look."""
        now = kernel_seconds(self._proc, self._boot)
        self._seconds += sum(used - self._before.get(thread, 0.0) for thread, used in now.items())
        self._before = now
        return self._seconds


@cache
def accounts_apart(proc: Path, boot: Path) -> bool:
    """Whether the kernel is built to account for interrupts apart; where its configuration is missing, it is not.

    Others then seem to have used more than they have, and never less.
    """
    try:
        text = gzip.decompress((proc / "config.gz").read_bytes()).decode()
    except OSError:
        try:
            text = (boot / f"config-{platform.release()}").read_text(encoding="utf-8")
        except OSError:
            return False
    return "CONFIG_IRQ_TIME_ACCOUNTING=y" in text.splitlines()


def thread_seconds(proc: Path) -> Iterator[tuple[Thread, str, float]]:
    """Give each of the kernel's threads, its name and CPU seconds.

    Source: proc(5), /proc/PID/stat: fields 1, 2, 4, 14, 15 and 22.
    """
    for entry in os.scandir(proc):
        if not entry.name.isdecimal():
            continue
        try:
            text = (proc / entry.name / "stat").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:  # it has ended since
            continue
        end = text.rindex(")")
        fields = text[end + 2 :].split()
        if int(fields[1]) == KTHREADD:
            thread = int(entry.name), int(fields[19])
            yield thread, text[text.index("(") + 1 : end], (int(fields[11]) + int(fields[12])) / TICKS
