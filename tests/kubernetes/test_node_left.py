"""What a node of the demo and of the tests makes of this machine is taken away, whatever has happened to it."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo_k8s.__main__ import taken_down
from demo_k8s.host import CPU, members, remove_groups
from rich.console import Console
from waiting import DIES_WITH_TEST

from qioi.processes.errors import LabError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: control groups")


@pytest.fixture
def root() -> Iterator[str]:
    """The name of a group of the test's own."""
    name = f"qioi-left-{os.getpid()}"
    yield name
    remove_groups(name)


def start_in(group: Path) -> subprocess.Popen[bytes]:
    """Start a process that ends by SIGKILL alone, in a new group."""
    group.mkdir(parents=True)
    process = subprocess.Popen([*DIES_WITH_TEST, "sh", "-c", "trap '' TERM; echo; exec sleep 600"],
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    (group / "cgroup.procs").write_text(str(process.pid))
    return process


def test_groups_go_with_all_that_is_in_them(root: str) -> None:
    top = CPU / root
    processes = [start_in(top / "burstable/pod1"), start_in(top / "pod2/container")]
    assert {one.pid for one in processes} <= members([top])
    remove_groups(root)
    assert not top.exists()
    assert [one.wait() for one in processes] == [-9, -9]


def test_a_group_that_stays_is_named(root: str) -> None:
    """A process that is stopped by the kernel does not end, as one that waits for a disk that is gone."""
    freezer = Path("/sys/fs/cgroup/freezer", root)
    if not freezer.parent.is_dir():
        pytest.skip("no freezer of cgroup v1 here, which holds SIGKILL back")
    process = start_in(freezer)
    state = freezer / "freezer.state"
    state.write_text("FROZEN")
    try:
        with pytest.raises(LabError, match=rf"left: {freezer}; processes that do not end: {process.pid}$"):
            remove_groups(root, patience=0)
    finally:
        state.write_text("THAWED")


def test_what_is_left_is_told_after_what_has_failed() -> None:
    def close() -> None:
        raise LabError("a group is left")

    console = Console(file=io.StringIO())
    with pytest.raises(LabError, match=r"^the kubelet has ended\na group is left$"), taken_down(close, console):
        raise LabError("the kubelet has ended")
    with pytest.raises(LabError, match=r"^a group is left$"), taken_down(close, console):
        pass
