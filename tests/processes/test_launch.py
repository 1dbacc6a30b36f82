"""Processes start inside their group and end with their parent when told to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from waiting import DIES_WITH_TEST, until

from qioi.processes.launch import LAUNCH_FAILED, last_lines, launch
from qioi.processes.tree import Tree


def test_the_program_itself_runs_in_the_group_from_its_start(tree: Tree, tmp_path: Path) -> None:
    group = tree.group("a").create()
    process = launch(["cat", "/proc/self/cgroup"], group, log=tmp_path / "out")
    assert process.wait() == 0
    assert group.path in (tmp_path / "out").read_text()


def test_standard_output_and_error_may_part(tree: Tree, tmp_path: Path) -> None:
    group = tree.group("a").create()
    process = launch(["sh", "-c", "echo one; echo two >&2"], group, log=tmp_path / "err", stdout=tmp_path / "out")
    assert process.wait() == 0
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("one\n", "two\n")


def test_a_group_that_is_gone_fails_the_launch(tree: Tree) -> None:
    assert launch(["true"], tree.group("never-made")).wait() == LAUNCH_FAILED


def test_environment_and_folder_are_passed_on(tree: Tree, tmp_path: Path) -> None:
    group = tree.group("a").create()
    command = ["sh", "-c", "echo $QIOI_X; pwd"]
    process = launch(command, group, log=tmp_path / "out", cwd=tmp_path, environment={"QIOI_X": "y"})
    assert process.wait() == 0
    assert (tmp_path / "out").read_text().split() == ["y", str(tmp_path)]


def test_a_child_dies_with_a_parent_that_is_killed(tree: Tree) -> None:
    group = tree.group("orphan").create()
    script = (
        "import sys, time\n"
        "from qioi.processes.tree import Tree\n"
        "from qioi.processes.launch import launch\n"
        f"launch(['sleep', '1000'], Tree({tree.name!r}).group('orphan'), die_with_parent=True)\n"
        "time.sleep(1000)\n"
    )
    parent = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", script])
    try:
        until(lambda: comm(group.pids()) == "sleep")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until(lambda: not group.pids())


def test_the_end_of_a_long_log_is_cut_to_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert last_lines(log, 2) == "line 9998\nline 9999"
    assert last_lines(tmp_path / "none") == ""


def comm(pids: tuple[int, ...]) -> str:
    try:
        return Path(f"/proc/{pids[0]}/comm").read_text().strip() if pids else ""
    except FileNotFoundError:
        return ""
