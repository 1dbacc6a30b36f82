"""What an experiment itself works: its process, and what that runs beside the lab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qioi.experiment.noise import Accounting, disturbance
from qioi.experiment.own_work import own_seconds
from qioi.experiment.task_work import TICKS, stats
from qioi.lab.machine import Snapshot
from qioi.processes.tree import Program, Tree

#: Half a second of CPU time, then a word, and what else there is to do until it is killed.
BURNS = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ntime.sleep(600)"


def test_what_runs_beside_the_lab_is_none_of_others() -> None:
    """As perf does while a window is recorded, and Caliper's command."""
    accounting = Accounting()
    quiet, busy = Snapshot(0.0, 0.0, 0.0, None), Snapshot(10.0, 0.0, 0.5, None)
    before = accounting.account(quiet, 0.0)
    with subprocess.Popen([sys.executable, "-c", BURNS], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert disturbance(before, accounting.account(busy, 0.0), 1)["others"] < 0.2
        child.kill()


def test_all_processes_are_looked_at_once_for_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes milliseconds, twice a second while a window is measured."""
    accounting, looks, scan = Accounting(), list[str](), os.scandir

    def counted(folder: str | Path) -> object:
        looks.append(str(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", counted)
    accounting.account(Snapshot(0.0, 0.0, 0.0, None), 0.0)
    assert looks == ["/proc"]


def test_the_lab_s_own_groups_account_for_its_processes(tree: Tree, tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = tree.start(Program("peer", [sys.executable, "-c", BURNS], log=log))
    while not log.read_text():
        assert child.poll() is None
    assert child.pid not in {pid for pid, _ in own_seconds(stats())}


def test_a_process_of_the_lab_that_ends_is_not_taken_for_one_beside_it(tmp_path: Path) -> None:
    """Until it is waited for, cgroup v1 has it in the root group, where this process may be."""
    for pid, parent, flags in ((os.getpid(), 1, 0), (7, os.getpid(), 0x400000), (8, os.getpid(), 0x400004)):
        (folder := tmp_path / str(pid)).mkdir()
        (folder / "stat").write_text(f"{pid} (a) b) S {parent} 0 0 0 -1 {flags} 0 0 0 0 {TICKS} 0 0 0 20 0 1 0 5 0")
        (folder / "cgroup").write_text("3:cpu,cpuacct:/\n")
    found = own_seconds(stats(tmp_path), tmp_path)
    assert found.pop((7, 5)) == 1.0
    assert [pid for pid, _ in found] == [os.getpid()]
