"""What a node of the demo and of the tests makes of this machine is taken away, whatever has happened to it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from demo_k8s import host
from demo_k8s.__main__ import main, taken_down
from demo_k8s.control_plane import run
from demo_k8s.host import CPU, Footprint, members, read_sysctls, recorded, remove_groups, remove_left, taken
from k8s_install import need_node
from ports import free_ports
from rich.console import Console
from waiting import DIES_WITH_TEST, until

from qioi.processes.errors import LabError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: control groups")


@pytest.fixture
def root() -> Iterator[str]:
    """The name of a group of the test's own."""
    name = f"qioi-left-{os.getpid()}"
    yield name
    remove_groups(name)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str) -> Iterator[Path]:
    """Where records of the test's own are; what they tell of is removed."""
    monkeypatch.setattr(host, "RECORDS", tmp_path / "records")
    yield host.RECORDS
    remove_left()


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


#: A process that makes what a node makes, and waits: of its arguments the first is where records are.
NODE = """
import subprocess, sys
from pathlib import Path
from demo_k8s import host
from demo_k8s.control_plane import Processes

host.RECORDS, folder, root = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
node = host.Footprint("test", folder, root, folder.parent / "logs")
node.record()
Path("/proc/sys/kernel/keys/root_maxkeys").write_text(sys.argv[4])
(folder.parent / "logs/pod").mkdir(parents=True)
(folder / "volume").mkdir()
subprocess.run(["mount", "-t", "tmpfs", "none", folder / "volume"], check=True)
pod = host.CPU / root / "kubepods/pod1"
pod.mkdir(parents=True)
container = subprocess.Popen(["sleep", "600"], start_new_session=True)
(pod / "cgroup.procs").write_text(str(container.pid))
processes = Processes(folder)
processes.start("kubelet", ["sleep", "600"])
print(container.pid, processes.running["kubelet"].pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def running(program: str, *arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a program of Python; give it, and the first line that it says."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*DIES_WITH_TEST, sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process, process.stdout.readline()


def lives(process: int) -> bool:
    """Whether it runs: it may have ended and wait for its parent, as one of init's does for a moment."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def rights(tmp_path: Path) -> None:
    """Skip where a node could not be made: root of a container may neither mount nor set the kernel's values."""
    (place := tmp_path / "mount").mkdir()
    mounts = subprocess.run(["mount", "-t", "tmpfs", "none", place], check=False, capture_output=True).returncode == 0
    if mounts:
        subprocess.run(["umount", place], check=True)
    place.rmdir()
    if not mounts or not os.access("/proc/sys/kernel/keys/root_maxkeys", os.W_OK):
        pytest.skip("no right here to mount, or to set the kernel's values")


@pytest.mark.usefixtures("rights")
def test_a_node_whose_process_was_killed_is_named_and_removed(records: Path, root: str, tmp_path: Path) -> None:
    folder, found = tmp_path / "node", read_sysctls()
    folder.mkdir()
    more = str(int(found["kernel/keys/root_maxkeys"]) + 1)
    with running(NODE, records, folder, root, more) as (process, said_first):
        try:
            container, kubelet = map(int, said_first.split())
            assert taken() == f"a node of the demo or of the tests is up already, in {folder}"
            said = CliRunner().invoke(main, ["--clean"])
            assert (said.exit_code, f"the node in {folder} is up" in said.output) == (1, True)
            assert lives(container)
        finally:
            process.send_signal(signal.SIGKILL)
    until(lambda: not lives(kubelet), what="the kubelet ends with it")
    assert lives(container)
    assert str(taken()).startswith(f"a node whose process was killed is left, in {folder}: ")
    said = CliRunner().invoke(main, ["--clean"])
    assert (said.exit_code, said.output) == (0, f"removed the node in {folder}\n")
    assert not lives(container)
    assert read_sysctls() == found
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert list(tmp_path.iterdir()) == []
    assert recorded() == []
    assert CliRunner().invoke(main, ["--clean"]).output == "no node is left here\n"


def test_a_record_stays_until_its_node_is_removed(records: Path, root: str, tmp_path: Path) -> None:
    first, second = (Footprint("test", tmp_path / name, root, tmp_path / "logs") for name in ("first", "second"))
    first.record()
    with pytest.raises(LabError, match=r"test\.json: there is a node test already"):
        second.record()
    (one,) = recorded()
    assert (one.folder, one.root, one.logs, one.sysctls) == (first.folder, root, first.logs, first.sysctls)
    first.remove()
    assert recorded() == []
    second.record()
    second.remove()


def test_what_cannot_be_put_back_is_named_and_all_else_goes(
    records: Path, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's sysctls can often not be written, and then none has changed."""
    monkeypatch.setattr(host, "SYSCTL", tmp_path / "sys")
    same, folder = tmp_path / "sys/vm/same", tmp_path / "sys/vm/folder"
    folder.mkdir(parents=True)
    same.write_text("0\n")
    os.utime(same, (1, 1))
    left = Footprint("test", tmp_path / "node", root, tmp_path / "logs", {"vm/folder": "1\n", "vm/same": "0\n"})
    for one in (left.folder, left.logs, CPU / root / "pod"):
        one.mkdir(parents=True)
    left.record()
    with pytest.raises(LabError, match=rf"^{folder}: Is a directory: it was 1$"):
        left.remove()
    assert [one.exists() for one in (left.folder, left.logs, CPU / root)] == [False, False, False]
    assert (same.stat().st_mtime, len(recorded())) == (1, 1)
    folder.rmdir()
    folder.write_text("2\n")
    left.remove()
    assert (folder.read_text(), recorded()) == ("1\n", [])


def test_what_fails_while_a_node_is_taken_down_hides_no_cause() -> None:
    def fail() -> None:
        raise PermissionError(13, "Permission denied", "/proc/sys/vm/x")

    with pytest.raises(LabError) as failed, taken_down(fail, Console(file=io.StringIO())):
        raise OSError(28, "No space left on device")
    assert [line.partition("] ")[2] for line in str(failed.value).splitlines()] == [
        "No space left on device", "Permission denied: '/proc/sys/vm/x'",
    ]  # fmt: skip


#: A process that brings a whole node up, in a folder and from a port on, with a pod that burns CPU time.
WHOLE_NODE = """
import sys
from pathlib import Path
from demo_k8s.control_plane import until
from k8s_node import Node

node = Node(Path(sys.argv[1]), int(sys.argv[2]))
node.start()
until(lambda: node.plane.kubectl("get", "sa", "-n", "default", "-o", "name"), "accounts are made")
node.run_pod("left", ["hog"])
until(lambda: node.running("left"), "the pod runs")
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.host
def test_a_whole_node_whose_process_was_killed_is_removed() -> None:
    need_node()
    found, sockets = read_sysctls(), sorted(Path("/run/containerd/s").glob("*"))
    outside = [Path("/usr/libexec/kubernetes"), Path("/run/containerd/runc/k8s.io"), Path("/var/lib/kubelet")]
    had = [one.exists() for one in outside]
    folder = tempfile.mkdtemp(prefix="qioi-node-")
    another = f"cni-{os.getpid()}"
    run(["ip", "netns", "add", another])
    try:
        with running(WHOLE_NODE, folder, str(free_ports())) as (process, said):
            process.send_signal(signal.SIGKILL)
        removed = CliRunner().invoke(main, ["--clean"])
        assert (said, removed.output) == ("up\n", f"removed the node in {folder}\n")
        assert taken() is None
        assert read_sysctls() == found
        assert folder not in Path("/proc/self/mountinfo").read_text()
        assert not Path(folder).exists()
        assert not run(["ps", "-eo", "args"]).count(folder)
        assert [one.exists() for one in outside] == had
        assert sorted(Path("/run/containerd/s").glob("*")) == sockets
        assert Path("/run/netns", another).exists()
    finally:
        run(["ip", "netns", "delete", another])
