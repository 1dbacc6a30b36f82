"""Groups in the real hierarchy of this host."""

from __future__ import annotations

from pathlib import Path

import pytest
from waiting import until

from qioi.kernel.hierarchy import Hierarchy
from qioi.processes.cgroups import Mounts, find_mounts
from qioi.processes.errors import LabError
from qioi.processes.launch import launch
from qioi.processes.tree import Program, Tree


def test_a_new_group_has_the_default_share_and_takes_another(tree: Tree) -> None:
    group = tree.group("a").create()
    assert group.shares() == 1024
    group.set_shares(4096)
    assert group.shares() == 4096
    assert tree.group("a").create(2048).shares() == 2048


def test_a_program_starts_in_a_prepared_group_that_was_made_idle_meanwhile(tree: Tree) -> None:
    tree.prepare("neighbour")
    group = tree.group("neighbour")
    idle = group.directories[0] / "cpu.idle"
    if not idle.exists():
        pytest.skip("this kernel has no cpu.idle (5.15)")
    idle.write_text("1")  # as the daemon does to neighbours that are best-effort
    process = tree.start(Program("neighbour", ["sleep", "1000"]))
    assert process.pid in group.pids()
    process.send_signal(9)
    process.wait()


def test_a_program_starts_with_its_shares_in_a_group_that_was_prepared_with_others_or_in_part(tree: Tree) -> None:
    tree.prepare("neighbour")
    group = tree.group("neighbour")
    group.directories[-1].rmdir()  # where CPU time is accounted for in a mount of its own, only there
    process = tree.start(Program("neighbour", ["sleep", "1000"], shares=2048))
    assert group.shares() == 2048
    assert process.pid in group.members()
    process.send_signal(9)
    process.wait()


def test_cpu_time_of_a_process_is_counted_for_its_group_alone(tree: Tree) -> None:
    busy, idle = tree.group("busy").create(), tree.group("idle").create()
    process = launch(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"], busy)
    assert process.wait() == 0
    assert busy.cpu_seconds() > 0.01
    assert idle.cpu_seconds() == 0


def test_remove_kills_a_process_that_ignores_sigterm(tree: Tree, tmp_path: Path) -> None:
    group = tree.group("deaf").create()
    process = launch(["sh", "-c", "trap '' TERM; touch deaf; while :; do sleep 0.1; done"], group, cwd=tmp_path)
    until((tmp_path / "deaf").exists)
    tree.remove((group,), grace=0.3)
    assert process.wait() == -9
    assert not group.exists
    assert tree.root.exists


def test_remove_reaches_grandchildren(tree: Tree) -> None:
    group = tree.group("family").create()
    process = launch(["sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & wait"], group)
    until(lambda: len(group.pids()) >= 3)
    pids = group.pids()
    tree.remove((group,), grace=0.2)
    process.wait()
    assert not [pid for pid in pids if alive(pid)]


def test_remove_may_be_repeated(tree: Tree) -> None:
    tree.group("a").create()
    tree.remove()
    tree.remove()
    assert not tree.root.exists


def test_a_host_without_cpu_controller_is_said_so(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("30 20 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    with pytest.raises(LabError, match="no CPU controller"):
        find_mounts(table)


def test_a_unified_host_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    table = tmp_path / "mountinfo"
    table.write_text(f"30 20 0:1 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
    found = find_mounts(table)
    assert (found.hierarchy.version, found.directories("a")) == (2, (tmp_path / "a",))


@pytest.mark.parametrize("apart", [True, False])
def test_a_v1_host_with_cpu_and_cpuacct_in_one_mount_or_in_two(tmp_path: Path, apart: bool) -> None:
    table = tmp_path / "mountinfo"
    v1 = "30 20 0:1 / /cg/{0} rw - cgroup cgroup rw,{0}\n"
    table.write_text(v1.format("cpu") + v1.format("cpuacct") if apart else v1.format("cpu,cpuacct"))
    found = find_mounts(table)
    assert found.hierarchy.version == 1
    assert found.directories("a") == (
        (Path("/cg/cpu/a"), Path("/cg/cpuacct/a")) if apart else (Path("/cg/cpu,cpuacct/a"),)
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_unified_group_is_spoken_to_in_v1_units(tmp_path: Path) -> None:
    """The kernel's part is played by plain files."""
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    tree = Tree("lab", Mounts(Hierarchy(2, tmp_path)))
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "cgroup.subtree_control").write_text("cpu\n")
    tree.create()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
    assert (tmp_path / "lab" / "cgroup.subtree_control").read_text() == "cpu\n"
    group = tree.group("peer").create(2048)
    assert (tmp_path / "lab" / "peer" / "cpu.weight").read_text() == "200"
    assert group.shares() == 2048
    (tmp_path / "lab" / "peer" / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert group.cpu_seconds() == 1.5
    assert group.procs_files == (tmp_path / "lab" / "peer" / "cgroup.procs",)
