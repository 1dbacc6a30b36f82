"""The machine that a measurement was made on, and how quiet it was meanwhile.

Source of the pressure figures: the kernel's Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

import psutil

from qioi.processes.cgroups import find_mounts

#: Ticks of /proc/stat in a second.
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Machine:
    """What stays the same during a run."""

    kernel: str
    cpu: str
    cores: int
    memory_gib: float
    cgroup_version: int
    load_average: float
    python: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters of the CPUs that the lab may use, at one time, in seconds; only their differences mean something.

    ``pressure`` is the machine's.
    ``busy`` is the time that was not idle. The kernel measures idle time. It samples busy time at each tick, which is
    wrong by a tenth of a CPU where work comes in pieces shorter than a tick.
    """

    time: float
    steal: float
    busy: float
    pressure: float | None


@dataclass(frozen=True, slots=True)
class Quiet:
    """What happened between two snapshots, as shares of the time (0..1) or cores.

    ``steal`` is what the hypervisor gave to others, per core; ``cores_busy`` what all processes used of the CPUs
    that the lab may use; ``pressure`` the share of time in which some task waited for a CPU (PSI ``some``).
    """

    seconds: float
    steal: float
    cores_busy: float
    pressure: float | None


def machine() -> Machine:
    """Describe this machine."""
    return Machine(
        kernel=platform.release(),
        cpu=cpu_model(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        cgroup_version=find_mounts().hierarchy.version,
        load_average=psutil.getloadavg()[0],
        python=platform.python_version(),
    )


def cpu_model(cpuinfo: str) -> str:
    """Find the processor's name; some architectures give none."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def snapshot() -> Snapshot:
    """Read the counters now."""
    usable = os.sched_getaffinity(0)
    # Both clocks are read right after the counters: what passes in between would count as busy.
    stat, elapsed, now = Path("/proc/stat").read_text(encoding="utf-8"), time.monotonic(), time.time()
    idle, steal = idle_and_steal(stat, usable)
    return Snapshot(
        time=now,
        steal=steal,
        busy=len(usable) * elapsed - idle - steal,
        pressure=waited("cpu"),
    )


def idle_and_steal(stat: str, cpus: Container[int]) -> tuple[float, float]:
    """Give the time in which these CPUs were idle, waits for I/O included, and that which was stolen from them, in s.

    Source: proc(5), /proc/stat.
    """
    idle = steal = 0
    for line in stat.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu" and int(name[3:]) in cpus:
            idle += int(fields[3]) + int(fields[4])
            steal += int(fields[7])
    return idle / TICK, steal / TICK


def waited(kind: str, folder: Path = Path("/proc/pressure")) -> float | None:
    """Give the seconds in which some task waited for a resource (PSI); ``None`` where this kernel tells none."""
    try:
        return some_total((folder / kind).read_text(encoding="utf-8"))
    except OSError:  # an older kernel whose PSI is off has the file, and reading it fails (EOPNOTSUPP)
        return None


def some_total(text: str) -> float | None:
    """Take ``total`` of the line ``some`` of a pressure file, in seconds."""
    for line in text.splitlines():
        kind, *fields = line.split()
        if kind == "some":
            return int(dict(field.split("=") for field in fields)["total"]) / 1e6
    return None


def between(before: Snapshot, after: Snapshot, cores: int) -> Quiet:
    """Say what happened from one snapshot to the next."""
    seconds = max(after.time - before.time, 1e-9)
    waited = None
    if before.pressure is not None and after.pressure is not None:
        waited = (after.pressure - before.pressure) / seconds
    return Quiet(
        seconds=seconds,
        steal=(after.steal - before.steal) / seconds / cores,
        cores_busy=max(0.0, (after.busy - before.busy) / seconds),
        pressure=waited,
    )
