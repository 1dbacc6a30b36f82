"""The kinds of neighbours that an arm can have, and what each needs on this host."""

from __future__ import annotations

from pathlib import Path

from qioi.experiment.bouts import Bouts
from qioi.experiment.neighbours import Neighbours, Nobody
from qioi.experiment.programs import Programs, program_binary
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


class SysbenchNeighbours:
    """sysbench's CPU test, N processes with a control group each."""

    unit = "events/s"

    def __init__(self, count: int, tree: Tree, directory: Path, shares: int) -> None:
        self._sysbench = Sysbench(tree, count, directory, shares)
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


def make_neighbours(spec: NeighbourSpec, tree: Tree, directory: Path, scratch: Path | None = None) -> Neighbours:
    """Give an arm's neighbours, not yet started. Those that disturb a disk write to ``scratch``."""
    neighbours = _make(spec, tree, directory, scratch)
    return neighbours if spec.bouts is None else Bouts(neighbours, spec.bouts)


def _make(spec: NeighbourSpec, tree: Tree, directory: Path, scratch: Path | None) -> Neighbours:
    if spec.sysbench:
        return SysbenchNeighbours(spec.sysbench, tree, directory, spec.shares)
    if spec.stress_memory:
        return StressNg(tree, "memory", spec.stress_memory, directory, spec.shares)
    if spec.stress_io:
        return StressNg(tree, "io", spec.stress_io, directory, spec.shares, scratch)
    if spec.command is not None:
        return Programs(tree, spec.command, spec.programs, directory, spec.shares)
    if spec.spark:
        return Spark(tree, spec.spark, directory, spec.records or None)
    return Nobody()


def require(spec: NeighbourSpec) -> None:
    """Raise, with the command that installs it, if this host lacks what an arm needs."""
    if spec.sysbench:
        sysbench_binary()
    if spec.stress_memory or spec.stress_io:
        stress_binary()
    if spec.spark:
        spark_home()
    if spec.command is not None:
        program_binary(spec.command)
