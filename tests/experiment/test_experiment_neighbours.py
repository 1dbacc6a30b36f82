"""Neighbours as an arm describes them: any program, of any weight, steady or in bouts."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import psutil
import pytest
from waiting import until

from qioi.experiment.kinds import make_neighbours, require
from qioi.experiment.neighbours import Neighbours, cap
from qioi.experiment.spec import NeighbourSpec
from qioi.interference import Spark
from qioi.interference.stress import parse_metrics
from qioi.processes.cgroups import Group
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree

BUSY = shlex.join([sys.executable, "-c", "while True: pass"])
#: One that has a child, as a fork storm has.
WITH_CHILD = shlex.join([sys.executable, "-c", "import os, signal\nos.fork()\nsignal.pause()"])


def states(groups: tuple[Group, ...]) -> set[str]:
    return {psutil.Process(pid).status() for group in groups for pid in group.pids()}


def quota_of(group: Group) -> int | None:
    """Give a group's quota in microseconds of a period; ``None``: it has none."""
    if group.mounts.hierarchy.version == 1:
        written = (group.directories[0] / "cpu.cfs_quota_us").read_text().strip()
    else:
        written = (group.directories[0] / "cpu.max").read_text().split()[0]
    return int(written) if written not in {"-1", "max"} else None


def test_a_quota_is_split_over_those_that_work(tree: Tree, tmp_path: Path) -> None:
    """Spark's master and driver hand work out: with a part each, one worker had a third of what was asked for."""
    each = round(0.5 * len(os.sched_getaffinity(0)) * 100_000 / 2)
    programs = make_neighbours(NeighbourSpec(programs=2, command="sleep 9"), tree, tmp_path)
    cases: list[tuple[Neighbours, list[int | None]]] = [
        (programs, [each, each]),
        (Spark(tree, 2, tmp_path), [None, each, each, None]),
    ]
    for neighbours, quotas in cases:
        for group in neighbours.groups:
            group.create()
        cap(0.5, neighbours)
        assert [quota_of(group) for group in neighbours.groups] == quotas


def test_programs_have_groups_of_their_own_and_end_with_their_children(tree: Tree, tmp_path: Path) -> None:
    spec = NeighbourSpec(programs=2, command=WITH_CHILD, shares=8192)
    require(spec)
    neighbours = make_neighbours(spec, tree, tmp_path)
    neighbours.prepare()
    neighbours.start()
    assert [group.shares() for group in neighbours.groups] == [8192, 8192]
    until(lambda: [len(group.pids()) for group in neighbours.groups] == [2, 2])
    neighbours.check()
    assert neighbours.work(0.0, 1e10) is None
    neighbours.stop()
    assert tree.children() == ()


def test_a_program_that_ends_by_itself_is_an_error_with_what_it_said(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "sh1.log").write_text("an earlier run\n")
    neighbours = make_neighbours(NeighbourSpec(programs=1, command="sh -c 'echo no memory; exit 3'"), tree, tmp_path)
    neighbours.prepare()
    neighbours.start()

    def complaint() -> str:
        try:
            neighbours.check()
        except LabError as error:
            return str(error)
        return ""

    assert until(complaint) == "sh1 ended by itself (status 3): no memory"
    neighbours.stop()


def test_a_program_that_is_missing_is_said_before_anything_starts() -> None:
    with pytest.raises(LabError, match="nosuch-program, the program of a neighbour, is not on the PATH"):
        require(NeighbourSpec(programs=1, command="nosuch-program --fast"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{"programs": 2, "command": BUSY}, {"sysbench": 2}], ids=["program", "sysbench"])
def test_in_bouts_all_are_stopped_and_go_on_by_turns(tree: Tree, tmp_path: Path, kind: dict[str, object]) -> None:
    neighbours = make_neighbours(NeighbourSpec.model_validate({**kind, "bouts": 0.2}), tree, tmp_path)
    neighbours.prepare()
    neighbours.start()
    for _ in range(2):
        until(lambda: states(neighbours.groups) == {psutil.STATUS_STOPPED})
        until(lambda: psutil.STATUS_STOPPED not in states(neighbours.groups))
    neighbours.check()
    neighbours.stop()
    assert tree.children() == ()


def test_those_that_rest_can_end_in_their_own_way(tree: Tree, tmp_path: Path) -> None:
    """stress-ng says what it did when it ends by a signal, which a stopped process does not take."""
    neighbours = make_neighbours(NeighbourSpec(stress_memory=1, bouts=0.5), tree, tmp_path)
    neighbours.prepare()
    neighbours.start()
    log = tmp_path / "stress-memory1.log"
    until(lambda: log.exists() and "dispatching" in log.read_text())  # before, it would die of the signal
    until(lambda: states(neighbours.groups) == {psutil.STATUS_STOPPED})
    neighbours.stop()
    assert parse_metrics(log) is not None
    assert tree.children() == ()


def test_neighbours_that_have_not_come_are_stopped_too(tree: Tree, tmp_path: Path) -> None:
    neighbours = make_neighbours(NeighbourSpec(programs=1, command=BUSY, bouts=0.2), tree, tmp_path)
    neighbours.prepare()
    neighbours.stop()
    assert tree.children() == ()
