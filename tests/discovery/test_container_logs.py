"""Where a container's log is, by what its engine tells of it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from toy_engine import Engine as ToyEngine
from waiting import PATIENCE

from qioi.discovery.docker import DockerDiscovery


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(("owner", "writers"), [(0, "_UID=0"), (65534, "_UID=0 _UID=65534")])
def test_lines_in_the_journal_are_of_root_or_of_the_user_whose_engine_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, writers: str
) -> None:
    """journalctl takes two matches of one field as alternatives."""
    monkeypatch.setattr("qioi.discovery.docker.container_group", lambda *_: "docker/peer")
    facts = {
        "Name": "/peer0",
        "State": {"Running": True, "Pid": os.getpid()},
        "Config": {"Image": "hyperledger/fabric-peer", "Labels": {}},
        "HostConfig": {"LogConfig": {"Type": "journald"}},
    }
    engine = ToyEngine(tmp_path / "sock", {"peer": facts})
    os.chown(tmp_path / "sock", owner, -1)
    try:
        with closing(DockerDiscovery(str(engine.server_address), 1)) as discovery:
            assert discovery.wait(PATIENCE)
            (component,) = discovery.found().components
            assert (component.log, component.log_format) == (f"CONTAINER_ID_FULL=peer {writers}", "journald")
    finally:
        engine.shutdown()
        engine.server_close()
