"""One container, record or label that cannot be used takes nothing from the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from toy_daemon import ToySite, peer
from toy_engine import Engine
from waiting import until

from qioi.controller.guard.journal import Entry
from qioi.controller.levers.lever import GroupId
from qioi.discovery.base import Found
from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.owners import EngineOwners
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Component, Owner, Role
from qioi.roster import merge

STATE = {"Running": True, "Pid": 1}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    good = {
        "Name": "/peer0",
        "State": STATE,
        "Config": {"Image": "hyperledger/fabric-peer", "Labels": {}},
        "HostConfig": {"LogConfig": {"Type": "json-file"}},
    }
    engine = Engine(tmp_path / "sock", {"broken": None, "strange": {"State": STATE}, "good": good})
    yield engine
    engine.shutdown()
    engine.server_close()


def test_a_container_that_the_engine_fails_on_hides_no_other(engine: Engine) -> None:
    with closing(DockerDiscovery(str(engine.server_address), 1)) as discovery:
        until(lambda: discovery.wait(0))
        problems = discovery.found().problems
    assert "driver overlay2 failed" in problems["container broken"]
    assert "KeyError: 'Name'" in problems["container strange"]
    assert "does not name the container" in problems["container peer0"]  # process 1 is in none of that name


def test_records_that_cannot_be_used_are_said_and_the_others_kept(engine: Engine, tmp_path: Path) -> None:
    socket = engine.server_address
    with closing(EngineOwners(Hierarchy(1, tmp_path), tmp_path, pause=0.0)) as owners:
        for owner in ("crio 12ab /run/crio.sock", "docker", f"docker broken {socket}"):
            owners.release(Entry("docker/a", "cpu.shares", GroupId(0, 0), 1024, (2048,), Owner.read(owner)))
        problems = {str(owner): text for owner, text in owners.settle().items()}
    assert "crio" in problems["crio 12ab /run/crio.sock"]
    assert "accepted are a container and an engine's socket" in problems["docker"]
    assert "driver overlay2 failed" in problems[f"docker broken {socket}"]


def test_a_threshold_of_a_container_that_the_list_overrides_is_nobodys(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("listed", "docker/p")], channels={"red": {"threshold": 100}}, docker={})
    labelled = Component("labelled", Role.PEER, "docker/p", ("blue",))
    found = Found((labelled, replace(labelled, name="other", cgroup="docker/q", channels=("green",))),
                  {"blue": 5.0, "green": 7.0})  # fmt: skip
    merged = merge(site.config, found, ())
    assert [one.name for one in merged.components] == ["listed", "other"]
    assert {channel: one.threshold for channel, one in merged.policies.items()} == {"red": 100.0, "green": 7.0}
