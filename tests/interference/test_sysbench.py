"""Real sysbench processes in real groups."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import DIES_WITH_TEST, until

from qioi.interference import Report, Sysbench, parse_reports, rates, sysbench_binary, total_over_time
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree


@pytest.mark.slow
def test_two_instances_report_from_groups_of_their_own(tree: Tree, tmp_path: Path) -> None:
    with Sysbench(tree, 2, tmp_path) as sysbench:
        assert [group.shares() for group in sysbench.groups] == [1024, 1024]
        # A second in which one of them had no CPU is reported too, as nothing done.
        until(
            lambda: {one.instance for one in sysbench.reports() if one.events_per_second} == {"sysbench1", "sysbench2"}
        )
        sysbench.check()
        assert all(len(group.pids()) == 1 for group in sysbench.groups)
        assert sysbench.cpu_seconds() > 0
        pids = [pid for group in sysbench.groups for pid in group.pids()]
    assert not [group for group in sysbench.groups if group.exists]
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert sysbench.reports()


@pytest.mark.slow
def test_one_that_was_killed_is_noticed(tree: Tree, tmp_path: Path) -> None:
    with Sysbench(tree, 1, tmp_path) as sysbench:
        until(lambda: sysbench.groups[0].pids() and sysbench.reports())
        sysbench.groups[0].signal(signal.SIGKILL)
        until(lambda: not sysbench.groups[0].pids())
        with pytest.raises(LabError, match="sysbench1 ended by itself"):
            sysbench.check()


def test_none_outlives_a_killed_parent(tree: Tree, tmp_path: Path) -> None:
    script = (
        "import time; from pathlib import Path; from qioi.interference import Sysbench\n"
        "from qioi.processes.tree import Tree\n"
        f"Sysbench(Tree({tree.name!r}), 2, Path({str(tmp_path)!r})).start(); print(flush=True); time.sleep(1000)\n"
    )
    parent = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    parent.stdout.readline()
    begun = len(tree.pids())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert begun == 2
    until(lambda: not tree.pids())


def test_a_host_without_sysbench_is_told_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="apt-get install sysbench"):
        sysbench_binary()


def test_a_negative_count_is_refused(tree: Tree, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="-1 sysbench"):
        Sysbench(tree, -1, tmp_path)


def test_only_complete_interval_reports_are_read() -> None:
    text = (
        "Threads started!\n\n[ 1s ] thds: 1 eps: 4480.00 lat (ms,95%): 0.24\n"
        "[ 2s ] thds: 1 eps: 12.50 lat (ms,95%): 90.78\n[ 3s ] thds: 1 eps: 44"
    )
    assert parse_reports(text, "a", 100.0) == [Report("a", 101.0, 4480.0), Report("a", 102.0, 12.5)]


def test_rates_are_means_within_the_window() -> None:
    reports = [Report("a", float(second), 10.0 * second) for second in range(1, 6)] + [Report("b", 9.0, 1.0)]
    assert rates(reports, 2, 4) == {"a": 30.0}


def test_a_late_report_does_not_open_a_hole_in_the_total() -> None:
    reports = [
        Report("a", 1.0, 5.0),
        Report("b", 1.0, 7.0),
        Report("a", 2.0, 5.0),
        Report("a", 3.0, 6.0),
        Report("b", 3.0, 8.0),
    ]
    assert total_over_time(reports) == [(1.0, 12.0), (2.0, 12.0), (3.0, 14.0)]
    assert total_over_time([]) == []


def test_an_instance_that_fell_silent_stops_counting() -> None:
    reports = [Report("a", float(second), 5.0) for second in range(1, 7)] + [Report("b", 1.0, 7.0)]
    assert total_over_time(reports)[-1] == (6.0, 5.0)
