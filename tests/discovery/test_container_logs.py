"""Where a container's log is, by what its engine tells of it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from toy_engine import Engine as ToyEngine
from waiting import PATIENCE

from qioi.discovery.base import Found
from qioi.discovery.docker import DockerDiscovery

ID = 32 * "a1"
#: A user's group, as systemd has it.
OWN = "user.slice/user-65534.slice/user@65534.service/user.slice/docker-{}.scope"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(("owner", "writers"), [(0, "_UID=0"), (65534, "_UID=0 _UID=65534")])
def test_lines_in_the_journal_are_of_root_or_of_the_user_whose_engine_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, writers: str
) -> None:
    """journalctl takes two matches of one field as alternatives."""
    monkeypatch.setattr("qioi.discovery.docker.container_group", lambda *_: OWN.format(ID))
    (component,) = found(tmp_path, ID, owner).components
    assert (component.log, component.log_format) == (f"CONTAINER_ID_FULL={ID} {writers}", "journald")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_users_engine_names_no_group_but_of_that_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root would raise, or have idle, what is another's."""
    groups = iter([f"system.slice/docker-{ID}.scope", OWN.format(ID)])
    monkeypatch.setattr("qioi.discovery.docker.container_group", lambda *_: next(groups))
    first = found(tmp_path, ID, 65534)
    assert first.components == ()
    assert "is not below user.slice/user-65534.slice" in first.problems["container peer0"]
    (second,) = found(tmp_path, ID, 65534).components
    assert second.cgroup == OWN.format(ID)


def test_an_id_is_no_option_of_journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qioi.discovery.docker.container_group", lambda *_: OWN.format("x --rotate"))
    there = found(tmp_path, "x --rotate")
    assert there.components == ()
    assert "'x --rotate' is no id of a container" in str(there.problems)


def found(folder: Path, container: str, owner: int | None = None) -> Found:
    """Find a peer whose engine has this id for it, and whose socket is this user's."""
    facts = {
        "Name": "/peer0",
        "State": {"Running": True, "Pid": os.getpid()},
        "Config": {"Image": "hyperledger/fabric-peer", "Labels": {}},
        "HostConfig": {"LogConfig": {"Type": "journald"}},
    }
    socket = folder / "sock"
    socket.unlink(missing_ok=True)
    engine = ToyEngine(socket, {container: facts})
    if owner is not None:
        os.chown(socket, owner, -1)
    try:
        with closing(DockerDiscovery(str(engine.server_address), 1)) as discovery:
            assert discovery.wait(PATIENCE)
            return discovery.found()
    finally:
        engine.shutdown()
        engine.server_close()
