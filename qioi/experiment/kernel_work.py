"""CPU time of the kernel itself: its threads, and interrupts where these are charged to nobody else.

A lab that flushes to a disk has the kernel's threads write for it, and the device interrupt. No control group accounts
for the threads, and neither is a process outside of the lab. A kernel that is built without IRQ_TIME_ACCOUNTING charges
an interrupt to the task that it interrupts (Linux, kernel/sched/cputime.c), so that the task's group has it.
"""

from __future__ import annotations

import gzip
import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from qioi.experiment.task_work import TICKS, Stat, Task

#: Interrupts among the threads; no thread has this id.
INTERRUPTS: Task = (0, 0)
#: The process whose children are the kernel's threads (Linux, kernel/kthread.c).
KTHREADD = 2
#: Threads whose time is among that of softirqs, too.
SOFTIRQ_THREADS = "ksoftirqd/"


def kernel_seconds(tasks: Iterable[Stat], proc: Path = Path("/proc"), boot: Path = Path("/boot")) -> dict[Task, float]:
    """Of all tasks, give the CPU seconds so far of the kernel's, and of interrupts that no task is charged for."""
    irq, softirq = (int(ticks) / TICKS for ticks in (proc / "stat").read_text(encoding="utf-8").split(maxsplit=8)[6:8])
    # A kernel that accounts for interrupts at each tick sees none of them, but softirqs.
    apart = irq > 0 and accounts_apart(proc, boot)
    threads = (one for one in tasks if one.parent == KTHREADD)
    seconds = {one.task: one.seconds for one in threads if not (apart and one.name.startswith(SOFTIRQ_THREADS))}
    return seconds | ({INTERRUPTS: irq + softirq} if apart else {})


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
