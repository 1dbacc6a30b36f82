"""The daemon's own place on the host: its control group, and precedence for its loop."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

#: Longest time that the loop may run in real time without a pause.
RT_MICROSECONDS = 1_000_000


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
