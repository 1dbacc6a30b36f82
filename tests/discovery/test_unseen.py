"""What cannot be looked at is said, or waited for, and hides nothing else."""

from __future__ import annotations

import errno
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from toy_engine import Engine as ToyEngine
from waiting import PATIENCE, until

from qioi.discovery import available
from qioi.discovery.docker import DockerDiscovery, pump
from qioi.discovery.engine import DOCKER, PODMAN, Kind

#: Beyond what a kernel numbers processes with (PID_MAX_LIMIT, proc(5)).
NOBODYS_PID = 5_000_000
NOBODY = 65534


def test_a_process_of_another_pid_namespace_is_said(tmp_path: Path) -> None:
    facts = {
        "Name": "/peer0",
        "State": {"Running": True, "Pid": NOBODYS_PID},
        "Config": {"Image": "hyperledger/fabric-peer", "Labels": {}},
        "HostConfig": {"LogConfig": {"Type": "json-file"}},
    }
    engine = ToyEngine(tmp_path / "sock", {"peer": facts})
    try:
        with closing(DockerDiscovery(str(engine.server_address), 1)) as discovery:
            until(lambda: discovery.wait(0))
            assert "--pid host" in discovery.found().problems["container peer0"]
    finally:
        engine.shutdown()
        engine.server_close()


def test_a_process_that_may_not_be_looked_at_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with /proc mounted hidepid=1, for a daemon that is not root."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("qioi.discovery.docker.container_group", refuse)
    facts = {
        "Name": "/peer0",
        "State": {"Running": True, "Pid": 7},
        "Config": {"Image": "hyperledger/fabric-peer", "Labels": {}},
        "HostConfig": {"LogConfig": {"Type": "json-file"}},
    }
    engine = ToyEngine(tmp_path / "sock", {"peer": facts})
    try:
        with closing(DockerDiscovery(str(engine.server_address), 1)) as discovery:
            until(lambda: discovery.found().problems.get("container peer") or discovery.wait(0))
            assert "Permission denied" in discovery.found().problems["container peer"]
    finally:
        engine.shutdown()
        engine.server_close()


@pytest.mark.parametrize(
    ("kind", "runtime", "there"),
    [(DOCKER, "Podman Engine", PODMAN), (PODMAN, "runc", DOCKER)],
    ids=["docker", "podman"],
)
def test_an_engine_under_the_other_ones_name_is_said(tmp_path: Path, kind: Kind, runtime: str, there: Kind) -> None:
    """As the package podman-docker has it: its logs are wrapped otherwise than their driver's name says."""
    engine = ToyEngine(tmp_path / "sock", {})
    engine.runtime = runtime
    said = (
        f"{engine.server_address}: {there.name.capitalize()} answers there: accepted is the section {there.name}, "
        "with this socket"
    )
    try:
        with closing(DockerDiscovery(str(engine.server_address), 1, kind=kind)) as discovery:
            until(lambda: said in str(discovery.found().problems))
        whose = f"{there.name.capitalize()}'s: 0 running containers at {engine.server_address}"
        assert available.engine(str(engine.server_address), kind) == whose
        assert not available.engine(str(engine.server_address), there).startswith(there.name.capitalize())
    finally:
        engine.shutdown()
        engine.server_close()


class Stream:
    """Events that end."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([{"Action": "start", "id": "a"}] * self._count)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_end_of_events_waits_for_nobody(count: int) -> None:
    """Who listened may have left, and the queue may be full."""
    waiting: queue.Queue[Any] = queue.Queue(1)
    missed = threading.Event()
    reader = threading.Thread(target=pump, args=(Stream(count), waiting, missed), daemon=True)
    reader.start()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    assert waiting.get_nowait() is None
    assert missed.is_set() == (count > 0)


def test_an_engine_in_a_folder_that_others_may_not_look_into_is_not_known_to_them(tmp_path: Path) -> None:
    """Podman's is root's alone, and `qioi check` is for any user."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    folder = tmp_path / "podman"
    folder.mkdir(0o700)
    os.seteuid(NOBODY)
    try:
        said = available.engine(str(folder / "podman.sock"), PODMAN)
    finally:
        os.seteuid(0)
    assert said == f"not known: {folder / 'podman.sock'}: Permission denied"


@pytest.mark.parametrize("below", ["none", "file/sock"])
def test_no_engine_is_where_there_is_nothing(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    assert available.engine(str(tmp_path / below), DOCKER) == f"no engine: no {tmp_path / below}"
