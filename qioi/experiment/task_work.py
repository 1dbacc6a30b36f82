"""CPU time of processes and the kernel's threads, as /proc tells it, added up while they come and end.

Source: proc(5), /proc/PID/stat: fields 1, 2, 4, 9, 14, 15 and 22.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
#: The flag of a task that is ending, or has ended and is not waited for yet (Linux, include/linux/sched.h).
PF_EXITING = 0x4

#: Id and start time (in ticks since boot): another task may get the id of one that has ended.
Task = tuple[int, int]


class Stat(NamedTuple):
    """A process or a thread of the kernel: its CPU time in seconds, good to a tick."""

    task: Task
    name: str
    parent: int
    ending: bool
    seconds: float


def stat_of(folder: Path) -> Stat | None:
    """Read the task of a folder below /proc; ``None`` where it has ended."""
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    begin, end = text.index("("), text.rindex(")")
    fields = text[end + 2 :].split()
    return Stat(
        task=(int(text[:begin]), int(fields[19])),
        name=text[begin + 1 : end],
        parent=int(fields[1]),
        ending=bool(int(fields[6]) & PF_EXITING),
        seconds=(int(fields[11]) + int(fields[12])) / TICKS,
    )


def stats(proc: Path = Path("/proc")) -> Iterator[Stat]:
    """Read all of them."""
    for entry in os.scandir(proc):
        if entry.name.isdecimal() and (found := stat_of(Path(entry))):
            yield found


class Work:
    """Adds up what tasks work, from one look to the next.

    What a task did between the last look at it and its end is unknown, so it may be too little, never too much.
    """

    def __init__(self) -> None:
        self._before: Mapping[Task, float] = {}
        self._seconds = 0.0

    def seconds(self, now: Mapping[Task, float]) -> float:
        """Take another look in; give the CPU seconds so far of all tasks that were ever seen."""
        self._seconds += sum(used - self._before.get(task, 0.0) for task, used in now.items())
        self._before = now
        return self._seconds
