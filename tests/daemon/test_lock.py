"""One daemon per host: whatever its state folder, and from whichever namespaces it comes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from descriptors import open_files
from ports import reserved
from refusing import read_only
from running import Site, end
from waiting import DIES_WITH_TEST, PATIENCE, until

from qioi.daemon.lock import HOST_LOCK, HostLock, LockedError, LockError, TreeLock, holder_of, is_held
from qioi.kernel.hierarchy import Hierarchy

LOCK = """
import sys
from pathlib import Path
from qioi.daemon.lock import LockedError, TreeLock
try:
    TreeLock(Path(sys.argv[1]))
    print("free")
except LockedError as error:
    print(error)
"""


#: No process has a number as high (PID_MAX_LIMIT).
ENDED = 2**22 + 1


@pytest.fixture
def group(real_group: tuple[Hierarchy, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control group that stands for the outermost one, which may be another test's."""
    monkeypatch.delenv(HOST_LOCK)
    hierarchy, path = real_group
    return hierarchy.folder(path)


def ask(group: Path, *unshare: str) -> str:
    """Try to lock it in another process, with namespaces of its own."""
    command = [*(("unshare", *unshare) if unshare else ()), sys.executable, "-c", LOCK, str(group)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_group_is_locked_by_one_process_and_freed_with_it(group: Path) -> None:
    lock = TreeLock(group)
    assert ask(group) == f"{group}: a QiOi daemon is running already on this host (pid {os.getpid()})"
    lock.close()
    lock.close()
    assert ask(group) == "free"
    assert ask(group) == "free"  # the one before has ended


@pytest.mark.parametrize("namespaces", ["--mount", "--net", "--uts --ipc", "--pid --fork --mount-proc", "--cgroup"])
def test_a_process_in_other_namespaces_meets_the_same_lock(group: Path, namespaces: str) -> None:
    lock = TreeLock(group)
    holder = "in another PID namespace, such as a container's" if "--pid" in namespaces else f"pid {os.getpid()}"
    assert ask(group, *namespaces.split()).endswith(f"is running already on this host ({holder})")
    lock.close()
    assert ask(group, *namespaces.split()) == "free"


def test_a_mount_of_the_same_hierarchy_elsewhere_is_the_same(group: Path, tmp_path: Path) -> None:
    bind = f"mount --bind {group} {tmp_path} && exec {sys.executable} -c '{LOCK}' {tmp_path}"
    lock = TreeLock(group)
    done = subprocess.run(["unshare", "--mount", "sh", "-c", bind], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path}: a QiOi daemon is running already on this host (pid {os.getpid()})")
    lock.close()


#: Becomes a command of nobody's, or one that has root's rights, as a file with the set-user-ID bit (su, sudo) has.
BECOMES = """
import os, sys
os.setresuid(65534, int(sys.argv[1]), int(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
"""
RESTS = ("sleep", "300")


@contextmanager
def neighbour(*command: str) -> Iterator[int]:
    """Run a command beside the test; give its process's number."""
    process = subprocess.Popen([*DIES_WITH_TEST, *command], cwd="/")
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a folder, and close it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("effective", ["65534", "0"])
def test_a_lock_of_another_user_keeps_no_daemon_out(
    group: Path, caplog: pytest.LogCaptureFixture, effective: str
) -> None:
    with neighbour(sys.executable, "-c", BECOMES, effective, "/usr/bin/flock", "--no-fork", str(group), *RESTS) as pid:
        with opened(group) as descriptor:
            until(lambda: holder_of(descriptor) == pid)
        TreeLock(group).close()
    assert f"process {pid} of user 65534 holds the lock" in caplog.text


def test_a_lock_that_another_user_has_left_to_a_child_keeps_no_daemon_out(
    group: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leaves = 'exec 9<"$0"; flock 9; exec "$@"'
    with neighbour(sys.executable, "-c", BECOMES, "65534", "/bin/sh", "-c", leaves, str(group), *RESTS):
        with opened(group) as descriptor:
            holder = until(lambda: holder_of(descriptor))
        until(lambda: not Path(f"/proc/{holder}").exists())  # flock(1) has ended
        TreeLock(group).close()
    assert f"process {holder}, which has ended, has left to another the lock that keeps a second" in caplog.text


#: Runs a command to which /proc shows no process that has more capabilities.
HIDING = 'mount -t proc -o hidepid=%d,gid=65534 proc /proc && exec setpriv --bounding-set=-sys_ptrace "$0" "$@"'


@pytest.mark.parametrize("level", [1, 2])
def test_a_daemon_that_proc_hides_has_not_ended(group: Path, level: int) -> None:
    lock = TreeLock(group)
    holder = f"pid {os.getpid()}, a process that /proc hides"
    said = ask(group, "--mount", "sh", "-c", HIDING % level)
    assert said == f"{group}: a QiOi daemon is running already on this host ({holder})"
    lock.close()
    assert ask(group, "--mount", "sh", "-c", HIDING % level) == "free"


def test_a_lock_that_was_freed_while_its_holder_was_looked_for_is_taken(
    group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = TreeLock(group)

    def ends(descriptor: int) -> int | None:
        pid = holder_of(descriptor)
        first.close()
        return None if pid is None else ENDED

    monkeypatch.setattr("qioi.daemon.lock.holder_of", ends)
    second = TreeLock(group)
    assert ask(group) == f"{group}: a QiOi daemon is running already on this host (pid {os.getpid()})"
    second.close()


def test_a_daemon_that_locks_it_when_its_holder_has_ended_keeps_a_second_one_out(
    group: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second one judged the holder before, took the lock for one left to a child, and went on without it."""
    locks = [TreeLock(group)]

    def is_followed(descriptor: int) -> int | None:
        if len(locks) == 2:
            return holder_of(descriptor)
        locks[0].close()
        locks.append(TreeLock(group))
        return ENDED

    monkeypatch.setattr("qioi.daemon.lock.holder_of", is_followed)
    with pytest.raises(LockedError, match=rf"is running already on this host \(pid {os.getpid()}\)$"):
        TreeLock(group)
    assert (caplog.text, open_files(group)) == ("", 1)
    locks[1].close()


def test_nobody_else_can_lock_the_state_folder(tmp_path: Path) -> None:
    (tmp_path / "lock").touch(0o644)
    HostLock(tmp_path).close()
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (target := tmp_path / "target").write_text("whole\n")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(LockError, match=r"lock: .*: accepted is a file that this user can make and write"):
        HostLock(tmp_path)
    assert target.read_text() == "whole\n"


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("held", [True, False])
def test_a_fifo_in_its_place_is_not_waited_for(tmp_path: Path, held: bool) -> None:
    os.mkfifo(tmp_path / "lock")
    descriptor = os.open(tmp_path / "lock", os.O_RDWR)
    if held:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(LockError, match=r"lock: not a regular file: accepted is a file that this user can make"):
        HostLock(tmp_path)
    os.close(descriptor)
    assert open_files(tmp_path) == 0


def test_whether_it_is_held_is_asked_without_holding_it(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "nowhere")
    lock = HostLock(tmp_path)
    assert is_held(tmp_path)
    lock.close()
    assert not is_held(tmp_path)
    HostLock(tmp_path).close()
    assert open_files(tmp_path) == 0


def test_asking_waits_for_nobody_and_follows_no_link(tmp_path: Path) -> None:
    """A lock behind a link counts as held, since nobody can tell. To open a FIFO without a writer takes for ever."""
    (tmp_path / "target").touch()
    (lock := tmp_path / "lock").symlink_to(tmp_path / "target")
    assert is_held(tmp_path)
    lock.unlink()
    os.mkfifo(lock)
    assert not is_held(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_lock_that_this_user_may_not_ask_for_may_be_held(tmp_path: Path) -> None:
    HostLock(tmp_path).close()
    os.seteuid(65534)
    try:
        assert is_held(tmp_path)
    finally:
        os.seteuid(0)


def test_who_waits_for_a_lock_is_not_its_holder(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    found = os.fstat(descriptor)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    locks = tmp_path / "locks"
    lines = [f"1: POSIX  ADVISORY  WRITE 7 {file} 0 EOF", f"2: -> FLOCK  ADVISORY  WRITE 8 {file} 0 EOF"]
    locks.write_text("\n".join([*lines, f"2: FLOCK  ADVISORY  WRITE 9 {file} 0 EOF"]))
    assert holder_of(descriptor, locks) == 9
    locks.write_text("\n".join(lines))
    assert holder_of(descriptor, locks) is None
    os.close(descriptor)


def test_a_machine_that_plays_several_hosts_has_no_lock(tmp_path: Path) -> None:
    for _ in range(2):
        TreeLock(tmp_path)  # tests/conftest.py says so


def test_a_lock_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.mkdir()
    with pytest.raises(LockError, match=rf"^{lock}: Is a directory: accepted is a file that this user can"):
        HostLock(tmp_path)
    lock.rmdir()
    os.mknod(lock, stat.S_IFCHR | 0o600, os.makedev(1, 7))  # a /dev/full of its own
    with pytest.raises(LockError, match=rf"^{lock}: not a regular file: accepted is a file that this user can"):
        HostLock(tmp_path)


@pytest.mark.parametrize("lock", [HostLock, TreeLock])
def test_a_file_system_without_locks_is_no_daemon_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: type[HostLock | TreeLock]
) -> None:
    """As an NFS whose lock service does not answer; none is at hand in a test."""
    monkeypatch.setenv(HOST_LOCK, str(tmp_path))

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(LockError, match=rf"^{tmp_path}(/lock)?: No locks available: accepted is a place that can be"):
        lock(tmp_path)
    assert open_files(tmp_path) == 0


def test_a_lock_on_a_read_only_disk_is_told_where_there_is_no_file_to_lock(tmp_path: Path) -> None:
    with (
        read_only(tmp_path),
        pytest.raises(LockError, match=rf"^{tmp_path}/lock: Read-only file system: accepted is a file that this"),
    ):
        HostLock(tmp_path)


def test_a_host_lock_that_is_no_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST_LOCK, str(tmp_path / "missing"))
    with pytest.raises(LockError, match=r"missing: No such file or directory: accepted is a folder$"):
        TreeLock(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "restore"])
def test_a_command_that_cannot_lock_says_so_in_one_line(site: Site, command: str) -> None:
    site.component("peer0")
    config = site.config()
    site.state.mkdir(exist_ok=True)
    (site.state / "lock").mkdir()
    done = subprocess.run([*site.command(command, "-c", str(config))], capture_output=True, text=True, timeout=PATIENCE)
    accepted = "accepted is a file that this user can make and write"
    assert (done.returncode, done.stderr) == (1, f"Error: {site.state}/lock: Is a directory: {accepted}\n")


@pytest.mark.slow
def test_a_second_daemon_is_refused_whatever_its_state_folder(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (lock := site.folder / "lock").mkdir()
    monkeypatch.setenv(HOST_LOCK, str(lock))
    share = site.component("peer0")
    process = site.start()
    site.changes = {"state_dir": str(site.folder / "another"), "socket": str(site.folder / "another.sock")}
    config = str(site.config())
    for namespaces in ((), ("unshare", "--mount", "--net")):
        done = subprocess.run(
            [*namespaces, *site.command("run", "-c", config)], capture_output=True, text=True, timeout=PATIENCE
        )
        assert (done.returncode, done.stderr) == (
            1,
            f"Error: {lock}: a QiOi daemon is running already on this host (pid {process.pid}); stop that one first\n",
        )
    dry = subprocess.Popen(site.command("run", "-c", config, "--dry-run"), stderr=subprocess.PIPE, text=True)
    site.processes.append(dry)
    site.socket = site.folder / "another.sock"
    site.commit_until(lambda: site.status() is not None)
    for one in (dry, process):
        assert end(one)[0] == 0
    assert int(share.read_text()) == 1024


@pytest.mark.slow
@pytest.mark.parametrize("shared", ["state_dir", "metrics", "socket"])
def test_a_dry_run_beside_a_daemon_needs_places_of_its_own(site: Site, shared: str) -> None:
    site.component("peer0")
    with reserved() as port:
        site.changes = {"metrics": {"port": port}, "socket": str(site.socket)}
        process = site.start()
        own = {"state_dir": str(site.folder / "another"), "metrics": {"port": 0}, "socket": str(site.folder / "a.sock")}
        site.changes |= {key: value for key, value in own.items() if key != shared}
        done = site.qioi("run", "-c", str(site.config()), "--dry-run")
        said = {
            "state_dir": f"{site.state}/lock: a QiOi daemon is running already (pid {process.pid})",
            "metrics": f"metrics 127.0.0.1:{port}: Address already in use",
            "socket": f"socket {site.socket}: another process answers there",
        }
        assert (done.returncode, said[shared] in done.stderr) == (1, True)
        assert end(process)[0] == 0
