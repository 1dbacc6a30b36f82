"""The machine that a measurement was made on, and how quiet it was meanwhile.

Figures are read from /proc as proc(5) and the kernel's Documentation/accounting/psi.rst describe them.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

from qioi.processes.cgroups import find_hierarchy

_TICKS = os.sysconf("SC_CLK_TCK")


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
    """Counters of the whole machine at one time, in seconds; only their differences mean something.

    ``busy`` is what was not idle. The kernel samples what ran at each tick, which errs by a tenth of a CPU where work
    comes in pieces shorter than a tick; idle time it measures.
    """

    time: float
    steal: float
    busy: float
    pressure: float | None


@dataclass(frozen=True, slots=True)
class Quiet:
    """What happened between two snapshots, as shares of the time (0..1) or cores.

    ``steal`` is what the hypervisor gave to others, per core; ``cores_busy`` what all processes of the
    machine used; ``pressure`` the share of time in which some task waited for a CPU (PSI ``some``).
    """

    seconds: float
    steal: float
    cores_busy: float
    pressure: float | None


def machine() -> Machine:
    """Describe this machine."""
    return Machine(
        kernel=platform.release(),
        cpu=cpu_model(Path("/proc/cpuinfo").read_text()),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        cgroup_version=find_hierarchy().version,
        load_average=os.getloadavg()[0],
        python=platform.python_version(),
    )


def cpu_model(cpuinfo: str) -> str:
    """Find the processor's name; not every architecture gives one."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def snapshot() -> Snapshot:
    """Read the counters now."""
    elapsed = (os.cpu_count() or 1) * time.monotonic()
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    idle, iowait, steal = (int(fields[place]) / _TICKS for place in (4, 5, 8))
    pressure = Path("/proc/pressure/cpu")
    return Snapshot(
        time=time.time(),
        steal=steal,
        busy=elapsed - idle - iowait - steal,
        pressure=some_total(pressure.read_text()) if pressure.exists() else None,
    )


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
