"""The host as a whole, and the daemon's own place on it."""

from __future__ import annotations

import os
import resource
import signal
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from qioi.controller.law import HostLoad
from qioi.kernel_files import KernelFiles
from qioi.types import DelayReading

STAT = Path("/proc/stat")
#: Bytes asked for in it: the lines of some 800 CPUs.
ROOM = 65_536
#: Seconds from which on a reading is of more than a moment; just below the usual period, which is never met exactly.
LASTING = 0.9
#: Longest time that the loop may run in real time without a pause.
RT_MICROSECONDS = 1_000_000


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


def own_cgroup(version: int, path: Path = Path("/proc/self/cgroup")) -> str | None:
    """Give the daemon's own group below the CPU controller's mount; ``None`` for the root group."""
    for line in path.read_text().splitlines():
        number, controllers, group = line.split(":", 2)
        if (version == 1 and "cpu" in controllers.split(",")) or (version == 2 and number == "0"):
            return group.strip("/") or None
    return None


def competing(group: str) -> str:
    """Give the group whose shares count for a daemon in ``group``: in a pod it is the pod's, not its container's."""
    pod, _, container = group.rpartition("/")
    return pod if container and "pod" in pod.rpartition("/")[2] and "kubepods" in pod else group


def alone(group: Path) -> bool:
    """Whether this process is the only one in a control group: what the group is given, nobody else then gets."""
    try:
        processes = (group / "cgroup.procs").read_text().split()
        return processes == [str(os.getpid())] and not any(entry.is_dir() for entry in group.iterdir())
    except OSError:
        return False


def protect_loop(nice: int | None, realtime: bool) -> str | None:
    """Give the daemon precedence, since its loop starves just when it is needed; say why if all is refused.

    A nice value counts inside the daemon's own control group or autogroup only (sched(7)), so beside a
    crowd in other groups it does nothing. The lowest real-time priority counts everywhere. What the loop may
    take of it is bounded: RLIMIT_RTTIME sends SIGXCPU after a second without a pause, and that gives it up.
    Both end with the process. Where real-time is refused (a group without cpu.rt_runtime_us), nice is left.
    """
    refusals = []
    if nice is not None:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        except OSError as error:
            refusals.append(f"nice {nice}: {error.strerror}")
    if realtime:
        try:
            signal.signal(signal.SIGXCPU, give_up_realtime)
            resource.setrlimit(resource.RLIMIT_RTTIME, (RT_MICROSECONDS, resource.RLIM_INFINITY))
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
            return None
        except (OSError, ValueError) as error:
            refusals.append(f"real-time priority: {error}")
    if not refusals:
        return None
    return f"own protection: {'; '.join(refusals)}: the loop may run late on a busy host"


def give_up_realtime(_number: int, _frame: object) -> None:
    """Go back to an ordinary process: this one has not paused for a second."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
