"""CPU time of the kernel itself: its threads, and interrupts where these are charged to nobody else.

A lab that flushes to a disk has the kernel's threads write for it, and the device interrupt. No control group accounts
for the threads, and neither is a process outside of the lab. A kernel that is built without IRQ_TIME_ACCOUNTING charges
an interrupt to the task that it interrupts (Linux, kernel/sched/cputime.c), so that the task's group has it.
"""

from __future__ import annotations

import gzip
import os
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path

#: The process whose children are the kernel's threads (Linux, kernel/kthread.c).
KTHREADD = 2
#: Threads whose time is among that of softirqs, too.
SOFTIRQ_THREADS = "ksoftirqd/"
TICKS = os.sysconf("SC_CLK_TCK")


def kernel_seconds(proc: Path = Path("/proc"), boot: Path = Path("/boot")) -> float:
    """Give the CPU seconds of the kernel's threads that there are now, and of interrupts that no task is charged for.

    A thread that ends takes its time along, so a difference may be too small, and is never too large.
    """
    threads = list(thread_seconds(proc))
    irq, softirq = (int(ticks) / TICKS for ticks in (proc / "stat").read_text(encoding="utf-8").split(maxsplit=8)[6:8])
    # A kernel that accounts for interrupts at each tick sees none of them, but softirqs.
    if not irq or not accounts_apart(proc, boot):
        return sum(seconds for _, seconds in threads)
    return irq + softirq + sum(seconds for name, seconds in threads if not name.startswith(SOFTIRQ_THREADS))


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


def thread_seconds(proc: Path) -> Iterator[tuple[str, float]]:
    """Give name and CPU seconds of each of the kernel's threads (proc(5), /proc/PID/stat: fields 2, 4, 14 and 15)."""
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
            yield text[text.index("(") + 1 : end], (int(fields[11]) + int(fields[12])) / TICKS
