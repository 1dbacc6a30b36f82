"""A real `qioi run` over a real engine: shares in the kernel and on the engine's record, and both put back."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from engine_site import CHAINCODE, OTHER, PEER, EngineSite
from waiting import PATIENCE, until

from qioi.controller.guard.journal import seal, unseal
from qioi.kernel.hierarchy import find_hierarchy
from qioi.show.http import UnreachableError, get_json

pytestmark = [pytest.mark.slow, pytest.mark.host]

#: The share of the engine's group, beside whatever else the machine does.
PREFERRED = 4096


class Daemon:
    """A daemon with nothing in its configuration but the engine and a threshold far above what is committed."""

    def __init__(self, folder: Path, engine: EngineSite) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.document: dict[str, Any] = {
            "period": 0.2,
            "docker": {"socket": str(engine.socket)},
            "defaults": {"law": "proportional", "threshold": 1000},
            "state_dir": str(self.state),
            "metrics": {"port": 0},
        }
        self.process: subprocess.Popen[str] | None = None

    def config(self) -> Path:
        path = self.folder / "qioi.yaml"
        path.write_text(yaml.safe_dump(self.document))
        return path

    def qioi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "qioi.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def start(self) -> None:
        command = [sys.executable, "-m", "qioi.cli", "run", "-c", str(self.config())]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stderr=log, text=True)
        until(lambda: self.status() is not None or self.ended())

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def status(self) -> dict[str, Any] | None:
        try:
            document = get_json(self.state / "qioi.sock", "/status")
        except UnreachableError:
            return None
        assert isinstance(document, dict)
        return document

    def components(self) -> dict[str, dict[str, Any]]:
        return {one["name"]: one for one in (self.status() or {"components": []})["components"]}


@pytest.fixture
def daemon(tmp_path: Path, engine: EngineSite) -> Iterator[Daemon]:
    """A daemon, and a container that works, so that a component competes at its own level, which its engine records."""
    engine.run_hog("beside")
    # What else this machine does must not take the most of it: it would show another level. The group is that of any
    # other engine of this host, too.
    file = engine_group() / find_hierarchy().file
    found = file.read_text()
    file.write_text(str(PREFERRED))
    daemon = Daemon(tmp_path, engine)
    yield daemon
    if not daemon.ended():
        daemon.end(signal.SIGKILL)
    file.write_text(found)


def engine_group() -> Path:
    return find_hierarchy().folder("docker")


def share(container: str) -> int:
    hierarchy = find_hierarchy()
    return int((engine_group() / container / hierarchy.file).read_text())


def raise_peer(daemon: Daemon, engine: EngineSite) -> str:
    """A peer, found by its image, on a channel that is known from its log alone, raised in both places."""
    container = engine.run(PEER, "peer0", rate=10)
    daemon.start()
    until(lambda: share(container) > 1024)
    until(lambda: engine.record("peer0") > 1024)
    return container


def test_raised_in_the_kernel_and_on_record_and_both_put_back(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    engine.run(OTHER, "neighbour")
    late = engine.run(CHAINCODE, "chaincode")
    until(lambda: "chaincode" in daemon.components())
    assert daemon.components().keys() == {"peer0", "chaincode"}
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0"), share(late)) == (1024, 1024, 1024)
    assert not (daemon.state / "journal").exists()


def test_after_a_sigkill_restore_puts_both_back(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    daemon.end(signal.SIGKILL)
    assert share(container) > 1024
    done = daemon.qioi("restore", "--state-dir", str(daemon.state))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (share(container), engine.record("peer0")) == (1024, 1024)


def test_restore_without_the_engine_falls_back_to_the_file_and_says_so(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    daemon.end(signal.SIGKILL)
    engine.stop()
    try:
        done = daemon.qioi("restore", "--state-dir", str(daemon.state))
        assert done.returncode == 3, done.stderr
        assert "the record of its owner is not put back yet" in done.stdout
        assert str(engine.socket) in done.stdout
        assert share(container) == 1024
    finally:
        engine.start()
    # Docker 20.10 forgets an update when it restarts over a running container; later ones remember it.
    done = daemon.qioi("restore", "--state-dir", str(daemon.state))
    assert done.returncode == 0, done.stdout + done.stderr
    assert engine.record("peer0") in (0, 1024)
    assert not (daemon.state / "journal").exists()


def test_a_container_that_stops_raised_starts_with_its_original(daemon: Daemon, engine: EngineSite) -> None:
    raise_peer(daemon, engine)
    with contextlib.closing(engine.client()) as client:
        client.api.stop("peer0", timeout=0)
    until(lambda: engine.record("peer0") == 1024)
    until(lambda: "peer0" not in daemon.components())
    assert daemon.end() == 0, daemon.log()


def test_a_container_that_restarts_while_raised(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    for _ in range(3):
        with contextlib.closing(engine.client()) as client:
            client.api.restart("peer0", timeout=0)
        until(lambda: share(container) > 1024 and daemon.components().get("peer0", {}).get("share") == share(container))
        assert daemon.components()["peer0"]["original"] == 1024
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0")) == (1024, 1024), daemon.log()


def test_what_an_operator_updates_is_left_alone(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    with contextlib.closing(engine.client()) as client:
        client.api.update_container("peer0", cpu_shares=777)
    until(lambda: "somebody else" in (daemon.components()["peer0"]["problem"] or ""))
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0")) == (777, 777)


def test_the_engine_restarts_under_a_running_daemon(daemon: Daemon, engine: EngineSite) -> None:
    container = raise_peer(daemon, engine)
    engine.stop(signal.SIGKILL)
    until(lambda: "asked again until it answers" in daemon.log())
    assert share(container) > 1024
    engine.start()
    engine.run(PEER, "peer1")
    until(lambda: daemon.components().keys() == {"peer0", "peer1"})
    assert daemon.end() == 0, daemon.log()
    assert share(container) == 1024
    assert engine.record("peer0") in (0, 1024)  # 0: forgotten by the engine itself


def test_files_alone_tell_the_engine_nothing(daemon: Daemon, engine: EngineSite) -> None:
    daemon.document["actuator"] = "files"
    container = engine.run(PEER, "peer0", rate=10)
    daemon.start()
    until(lambda: share(container) > 1024)
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0")) == (1024, 0)


def test_an_engine_that_is_required_and_not_there(daemon: Daemon) -> None:
    daemon.document |= {"actuator": "docker", "docker": {"socket": str(daemon.folder / "none.sock")}}
    done = daemon.qioi("run", "-c", str(daemon.config()))
    assert done.returncode == 1
    assert "none.sock: No such file or directory" in done.stderr.splitlines()[-1]


def test_after_a_power_cut_an_older_daemons_journal_on_a_disk_puts_the_record_back(
    daemon: Daemon, engine: EngineSite
) -> None:
    """One that wrote nothing else down, with a state folder that outlived the boot."""
    container = raise_peer(daemon, engine)
    daemon.end(signal.SIGKILL)
    with contextlib.closing(engine.client()) as client:
        client.api.kill("peer0")
    shutil.rmtree(daemon.state / "records")
    journal = daemon.state / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([seal({**unseal(lines[0]), "boot": "another"}).encode(), *lines[1:]]))
    assert engine.record("peer0") > 1024
    done = daemon.qioi("restore", "--state-dir", str(daemon.state))
    assert done.returncode == 0, done.stdout + done.stderr
    assert engine.record("peer0") in (0, 1024)
    with contextlib.closing(engine.client()) as client:
        client.api.start("peer0")
    until(lambda: share(container) == 1024)
