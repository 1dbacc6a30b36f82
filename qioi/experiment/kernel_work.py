"""CPU time of the kernel itself: its threads, and interrupts.

A lab that flushes to a disk has the kernel's threads write for it, and the device interrupt. No control group accounts
for either, and neither is a process outside of the lab.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

#: The process whose children are the kernel's threads (Linux, kernel/kthread.c).
KTHREADD = 2
TICKS = os.sysconf("SC_CLK_TCK")


def kernel_seconds(proc: Path = Path("/proc")) -> float:
    """Give the CPU seconds of the kernel's threads that there are now, and of interrupts since the boot.

    A thread that ends takes its time along, so a difference may be too small, and is never too large.
    """
    times = psutil.cpu_times()
    return sum(thread_seconds(proc)) + times.irq + times.softirq


def thread_seconds(proc: Path) -> Iterator[float]:
    """Give the CPU seconds of each of the kernel's threads (proc(5), /proc/PID/stat: fields 4, 14 and 15)."""
    for entry in os.scandir(proc):
        if not entry.name.isdecimal():
            continue
        try:
            text = (proc / entry.name / "stat").read_text()
        except OSError:  # it has ended since
            continue
        fields = text[text.rindex(")") + 2 :].split()
        if int(fields[1]) == KTHREADD:
            yield (int(fields[11]) + int(fields[12])) / TICKS
