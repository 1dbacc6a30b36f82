"""CPU time of the experiment itself: of this process, and of what it runs beside the lab (perf, Caliper's command).

The lab's processes, its load clients and the neighbours are children of this process, too. They are in control groups
of their own, which account for them. So what stands in this process's own groups is all else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from qioi.experiment.task_work import Stat, Task, stat_of


def own_seconds(tasks: Iterable[Stat], proc: Path = Path("/proc")) -> dict[Task, float]:
    """Of all tasks, give the CPU seconds so far of this process and of its children in its own control groups."""
    here = os.getpid()
    groups = groups_of(proc / str(here))
    seconds: dict[Task, float] = {(here, 0): time.process_time()}
    for child in [one for one in tasks if one.parent == here]:
        folder = proc / str(child.task[0])
        if groups_of(folder) != groups:
            continue
        # The kernel moves what ends to the root of cgroup v1, where this process may be.
        if (now := stat_of(folder)) and not now.ending:
            seconds[now.task] = now.seconds
    return seconds


def groups_of(folder: Path) -> str:
    """Read a process's control groups; empty where it has ended."""
    try:
        return (folder / "cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
