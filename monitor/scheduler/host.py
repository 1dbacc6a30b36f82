"""How busy the host as a whole is, and how much of that is not the ledger's."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from qioi.kernel.files import KernelFiles
from qioi.model import DelayReading, HostLoad

STAT = Path("/proc/stat")
#: Bytes asked for in it: the lines of some 800 CPUs.
ROOM = 65_536
#: Seconds from which on a reading is of more than a moment; just below the usual period, which is never met exactly.
LASTING = 0.9


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Totals over all CPUs since boot, in clock ticks. Source: proc(5), /proc/stat."""

    total: int
    idle: int
    cpus: int


def parse_cpu_times(text: bytes) -> CpuTimes:
    """Read the first line, and count the CPUs. Time that waits for I/O is idle: nobody used the CPU."""
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, text[: text.index(b"\n")].split()[1:9])
    return CpuTimes(user + nice + system + idle + iowait + irq + softirq + steal, idle + iowait, text.count(b"\ncpu"))


class HostWatch:
    """Says how busy the host was since the look before, and how much of that was not the ledger's.

    ``sudden`` says whether somebody has come a moment ago.
    """

    def __init__(
        self, path: Path = STAT, files: KernelFiles | None = None, sudden: Callable[[], bool] | None = None
    ) -> None:
        self._path = str(path)
        self._files = files or KernelFiles()
        self._sudden = sudden
        #: The looks of the last second and the one before them, each with the ticks that the ledger had used until it.
        self._looks = deque([(self._times(), 0.0)])

    def _times(self) -> CpuTimes:
        return parse_cpu_times(self._files.read(self._path, ROOM))

    def read(self, delays: Iterable[DelayReading]) -> HostLoad | None:
        """Compare with the look before, and with one a second ago; ``None`` if the clock has not ticked since."""
        now, (before, used) = self._times(), self._looks[-1]
        ticks = now.total - before.total
        if ticks <= 0:
            if ticks < 0:  # CPUs that go offline may take hours of idle time with them
                self._looks = deque([(now, 0.0)])
            return None
        cores = sum(delay.run / delay.interval for delay in delays if delay.interval > 0)
        look = (now, used + ticks * cores / now.cpus)
        load = between((before, used), look)
        if self._sudden is not None and self._sudden():
            load = replace(load, sudden=True)
        self._looks.append(look)
        long_ago = now.total - LASTING * now.cpus * os.sysconf("SC_CLK_TCK")
        while self._looks[1][0].total <= long_ago:
            self._looks.popleft()
        return load if self._looks[0][0] is before else replace(load, lasting=between(self._looks[0], look))


def between(before: tuple[CpuTimes, float], now: tuple[CpuTimes, float]) -> HostLoad:
    """Give the load between two looks."""
    ticks = now[0].total - before[0].total
    idle = min(1.0, max(0.0, (now[0].idle - before[0].idle) / ticks))
    ledger = (now[1] - before[1]) / ticks
    return HostLoad(idle, min(1.0, max(0.0, 1.0 - idle - ledger)))
