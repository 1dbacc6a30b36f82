"""What a power cut leaves on the engine's record is put back at the next start, or by `qioi restore`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from engine_site import OTHER, PEER, EngineSite
from test_docker_daemon import Daemon, daemon, share
from waiting import until

from qioi.discovery.told import ToldFiles

__all__ = ["daemon"]  # the fixture

pytestmark = [pytest.mark.slow, pytest.mark.host]

ALWAYS = {"restart_policy": {"Name": "always"}}


@pytest.fixture
def disk(daemon: Daemon) -> Path:
    """The daemon with its records on a disk, apart from the state that a boot takes away."""
    folder = daemon.folder / "disk"
    daemon.document["record_dir"] = str(folder)
    return folder


def cut_power(daemon: Daemon, engine: EngineSite) -> None:
    """Kill daemon, engine and containers at once, and take away what a boot does: /run and the control groups."""
    with contextlib.closing(engine.client()) as client:
        ids = [one["Id"] for one in client.api.containers()]
        inside = {client.api.inspect_container(one)["State"]["Pid"] for one in ids}
    assert engine.process is not None
    if not daemon.ended():
        daemon.end(signal.SIGKILL)
    for pid in (*engine.processes("dockerd"), *engine.processes("containerd")):  # they would start it again
        os.kill(pid, signal.SIGKILL)
    engine.process.wait()
    for pid in inside:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside))  # reaped by their shims
    for pid in engine.processes():
        os.kill(pid, signal.SIGKILL)
    until(lambda: not engine.processes())
    for group in (found for one in ids for found in Path("/sys/fs/cgroup").glob(f"*/docker/{one}")):
        with contextlib.suppress(FileNotFoundError):  # a controller by its second name, or gone with its shim
            group.rmdir()
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        mount = line.split(" ")[1]
        if mount.startswith(f"{engine.folder}/"):
            subprocess.run(["umount", mount], check=True)
    shutil.rmtree(engine.folder / "exec", ignore_errors=True)
    shutil.rmtree(daemon.state)
    engine.process = None


def records(disk: Path) -> list[str]:
    return [str(one.owner) for one in ToldFiles(disk).load()[0]]


def raised(daemon: Daemon, engine: EngineSite) -> str:
    """A peer that the engine starts again, with a share of ours in the kernel and on record."""
    container = engine.run(PEER, "peer0", rate=10, **ALWAYS)
    daemon.start()
    until(lambda: share(container) > 1024)
    until(lambda: engine.record("peer0") > 1024)
    return container


@pytest.mark.parametrize("first", ["engine", "daemon"])
def test_a_container_that_comes_up_raised_is_put_back(
    daemon: Daemon, engine: EngineSite, disk: Path, first: str
) -> None:
    container = raised(daemon, engine)
    cut_power(daemon, engine)
    daemon.document["defaults"] = {"law": "proportional", "threshold": 1000, "ceiling": 1024}  # it raises nobody
    if first == "engine":
        engine.start()
        until(lambda: share(container) > 1024)  # what our share on record does
        daemon.start()
    else:
        daemon.start()
        engine.start()
    until(lambda: "peer0" in daemon.components())
    until(lambda: (share(container), engine.record("peer0")) == (1024, 1024))
    until(lambda: daemon.components()["peer0"]["original"] == 1024)
    until(lambda: records(disk) == [])
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0")) == (1024, 1024)


def test_a_daemon_that_raises_at_once_again_knows_the_original(daemon: Daemon, engine: EngineSite, disk: Path) -> None:
    container = raised(daemon, engine)
    cut_power(daemon, engine)
    daemon.start()
    engine.start()
    until(lambda: daemon.components().get("peer0", {}).get("share", 0) > 1024)
    assert daemon.components()["peer0"]["original"] == 1024
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0"), records(disk)) == (1024, 1024, [])


def test_restore_puts_back_what_is_stopped_and_forgets_what_is_gone(
    daemon: Daemon, engine: EngineSite, disk: Path
) -> None:
    container = engine.run(PEER, "peer0", rate=10)
    engine.run(PEER, "gone", rate=10)
    changed = engine.run(PEER, "changed", rate=10, cpu_shares=512)
    daemon.start()
    until(lambda: all(engine.record(name) > 1024 for name in ("peer0", "gone", "changed")))
    cut_power(daemon, engine)
    command = ("restore", "--state-dir", str(daemon.state), "--record-dir", str(disk))
    done = daemon.qioi(*command)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the record of its owner is not put back yet" in done.stdout
    assert len(records(disk)) == 3
    engine.start()
    engine.remove("gone")
    with contextlib.closing(engine.client()) as client:
        client.api.update_container("changed", cpu_shares=777)
    done = daemon.qioi(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (engine.record("peer0"), engine.record("changed"), records(disk)) == (1024, 777, [])
    with contextlib.closing(engine.client()) as client:
        client.api.start("peer0")
        client.api.start("changed")
    until(lambda: (share(container), share(changed)) == (1024, 777))
    assert "nothing is to be restored" in daemon.qioi(*command).stdout


def test_what_was_kept_on_purpose_is_gone_on_with_and_ends_with_the_boot(
    daemon: Daemon, engine: EngineSite, disk: Path
) -> None:
    daemon.document |= {"on_exit": "keep", "channels": {"red": {}}}
    container = raised(daemon, engine)
    assert daemon.end() == 0, daemon.log()
    left = engine.record("peer0")
    assert (share(container) > 1024, left > 1024, len(records(disk))) == (True, True, 1)
    daemon.start()
    until(lambda: daemon.components().get("peer0", {}).get("original") == 1024)
    assert engine.record("peer0") > 1024
    assert daemon.end() == 0, daemon.log()
    assert len(records(disk)) == 1
    cut_power(daemon, engine)
    engine.start()
    until(lambda: share(container) > 1024)
    done = daemon.qioi("restore", "--state-dir", str(daemon.state), "--record-dir", str(disk), "--unless-kept")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (share(container), engine.record("peer0"), records(disk)) == (1024, 1024, [])


def test_a_disk_that_takes_nothing_keeps_the_engine_untold(daemon: Daemon, engine: EngineSite, disk: Path) -> None:
    disk.write_text("no folder")
    container = engine.run(PEER, "peer0", rate=10)
    daemon.start()
    until(lambda: share(container) > 1024)
    until(lambda: "told of no share" in daemon.log())
    assert engine.record("peer0") == 0
    disk.unlink()
    until(lambda: engine.record("peer0") > 1024)
    engine.run(OTHER, "neighbour")
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0"), records(disk)) == (1024, 1024, [])
