"""The neighbours of an arm behind one interface: prepare, start, check, stop."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from qioi.experiment.spec import NeighbourSpec
from qioi.interference import (
    Spark,
    StressNg,
    Sysbench,
    rates,
    spark_home,
    stress_binary,
    sysbench_binary,
    total_over_time,
)
from qioi.lab.figures import Series
from qioi.processes.cgroups import Group
from qioi.processes.tree import Tree

#: Period of a CPU quota, in microseconds (the kernel's own default: sched-bwc.rst).
QUOTA_PERIOD = 100_000


class Neighbours(Protocol):
    """The interface of every kind. Work is in the kind's own unit per second."""

    names: tuple[str, ...]
    unit: str

    @property
    def groups(self) -> tuple[Group, ...]:
        """Their control groups."""
        ...

    def prepare(self) -> None:
        """Make groups, and start what takes long to start."""
        ...

    def start(self) -> None:
        """Start them."""
        ...

    def check(self) -> None:
        """Raise if one has ended by itself."""
        ...

    def stop(self) -> None:
        """End them, leaving only logs. A second call is harmless."""
        ...

    def work(self, since: float, until: float) -> float | None:
        """Give the work done per second within [since, until], epoch seconds; ``None`` if it is not known."""
        ...

    def over_time(self) -> Series:
        """Give the work per second by epoch seconds, where the kind reports it."""
        ...


class Nobody:
    """No neighbours."""

    names: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    unit = ""

    def prepare(self) -> None:
        """Do nothing."""

    start = check = stop = prepare

    def work(self, since: float, until: float) -> float | None:
        """Say that there is none."""
        return None

    def over_time(self) -> Series:
        """Say that there is none."""
        return ()


class SysbenchNeighbours:
    """sysbench's CPU test, N processes with a control group each."""

    unit = "events/s"

    def __init__(self, count: int, tree: Tree, directory: Path) -> None:
        self._sysbench = Sysbench(tree, count, directory)
        self.names = self._sysbench.names

    @property
    def groups(self) -> tuple[Group, ...]:
        """Their control groups."""
        return self._sysbench.groups

    def prepare(self) -> None:
        """Prepare a place for each."""
        self._sysbench.prepare()

    def start(self) -> None:
        """Start all."""
        self._sysbench.start()

    def check(self) -> None:
        """Raise if one has ended by itself."""
        self._sysbench.check()

    def stop(self) -> None:
        """Kill all."""
        self._sysbench.stop()

    def work(self, since: float, until: float) -> float | None:
        """Events per second of all; an instance too starved to report counts as 0."""
        return sum(rates(self._sysbench.reports(), since, until).values())

    def over_time(self) -> Series:
        """Events per second of all."""
        return tuple(total_over_time(self._sysbench.reports()))


def make_neighbours(spec: NeighbourSpec, tree: Tree, directory: Path) -> Neighbours:
    """Give an arm's neighbours, not yet started."""
    if spec.sysbench:
        return SysbenchNeighbours(spec.sysbench, tree, directory)
    if spec.stress_memory:
        return StressNg(tree, "memory", spec.stress_memory, directory)
    if spec.stress_io:
        return StressNg(tree, "io", spec.stress_io, directory)
    if spec.spark:
        return Spark(tree, spec.spark, directory)
    return Nobody()


def require(spec: NeighbourSpec) -> None:
    """Raise, with the command that installs it, if this host lacks what an arm needs."""
    if spec.sysbench:
        sysbench_binary()
    if spec.stress_memory or spec.stress_io:
        stress_binary()
    if spec.spark:
        spark_home()


def set_quota(group: Group, cores: float) -> None:
    """Cap a group's CPU time; the cap ends with the group."""
    quota = max(1000, round(cores * QUOTA_PERIOD))
    directory = group.directories[0]
    if group.hierarchy.version == 1:
        (directory / "cpu.cfs_period_us").write_text(str(QUOTA_PERIOD))
        (directory / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (directory / "cpu.max").write_text(f"{quota} {QUOTA_PERIOD}")
