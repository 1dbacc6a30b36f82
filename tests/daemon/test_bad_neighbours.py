"""One container, record or label that cannot be used takes nothing from the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from toy_daemon import ToySite, peer
from toy_engine import Engine
from waiting import until

from qioi.controller.guard.journal import Entry
from qioi.controller.levers.lever import GroupId
from qioi.daemon.discoveries import watch
from qioi.discovery import engine as engine_client
from qioi.discovery.base import Fixed, Found
from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.mine import OwnGroups
from qioi.discovery.owners import EngineOwners
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Component, Owner, Role
from qioi.roster import MAX_SEEN, FixedRoster, FoundRoster, merge
from qioi.settings.config import load_config

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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine has a second for each answer, and containers are listed all the time."""
    monkeypatch.setattr("qioi.discovery.docker.Engine", lambda socket, kind: engine_client.Engine(socket, 1, kind))
    monkeypatch.setattr("qioi.discovery.docker.RELIST", 0.1)
    monkeypatch.setattr("qioi.discovery.docker.container_group", lambda pid, container, version: f"docker/{container}")


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_container_that_is_stuck_in_its_engine_hides_no_other_and_stays_as_it_was(engine: Engine) -> None:
    engine.silent = {"broken"}
    with closing(DockerDiscovery(str(engine.server_address), 1)) as discovery:
        until(lambda: "no answer in 1 s" in discovery.found().problems.get("container broken", ""))
        until(lambda: discovery.found().components)  # this process may stand still for a second itself
        first = discovery.found()
        engine.silent = {"good"}
        until(lambda: "container peer0" in discovery.found().problems)
        until(lambda: "driver overlay2 failed" in discovery.found().problems["container broken"])
        second = discovery.found()
    assert [one.cgroup for one in first.components] == ["docker/good"]
    assert "no answer in 1 s" in first.problems["container broken"]
    assert second.components == first.components


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_what_was_seen_before_an_engine_stops_answering_stays(engine: Engine) -> None:
    engine.silent = {"stuck", "_ping"}
    engine.facts["stuck"] = None
    with closing(DockerDiscovery(str(engine.server_address), 1)) as discovery:
        until(lambda: any("asked again" in text for text in discovery.found().problems.values()))
        found = discovery.found()
    assert [one.cgroup for one in found.components] == ["docker/good"]
    assert not found.complete


@pytest.mark.slow
def test_a_container_that_was_missed_is_found_while_others_come_and_go(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine drops events of a slow listener, and on a busy host there is always a next one."""
    # No pause between two events is as long, also where this host stands still.
    monkeypatch.setattr("qioi.discovery.docker.RELIST", 5)
    monkeypatch.setattr("qioi.discovery.docker.container_group", lambda pid, container, version: f"docker/{container}")
    engine.event_every = 0.01
    with closing(DockerDiscovery(str(engine.server_address), 1)) as discovery:
        until(lambda: discovery.wait(0))
        engine.facts["missed"] = engine.facts["good"]
        until(lambda: "docker/missed" in [one.cgroup for one in discovery.found().components])


@pytest.mark.slow
def test_a_stuck_container_is_no_reason_not_to_start(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The container answers later than the daemon has patience for at its start.
    monkeypatch.setattr("qioi.discovery.docker.Engine", lambda socket, kind: engine_client.Engine(socket, 60, kind))
    engine.silent = {"broken"}
    config = tmp_path / "qioi.yaml"
    config.write_text(
        yaml.safe_dump({"docker": {"socket": str(engine.server_address)}, "actuator": "docker", "state_dir": "state"})
    )
    hierarchy = Hierarchy(1, tmp_path)
    watch(load_config(config), hierarchy, OwnGroups(tmp_path, ()), owned=True, owners=()).close()


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


def test_channels_that_have_a_policy_leave_the_others_room_and_too_many_are_said(tmp_path: Path) -> None:
    known = [f"known{number}" for number in range(MAX_SEEN)]
    site = ToySite(tmp_path, [peer("listed", "docker/p")], channels={name: {} for name in known}, docker={})
    labelled = Component("labelled", Role.PEER, "docker/q", ("named",))
    roster = FoundRoster(site.config, Fixed([labelled]), None)

    def protected(*seen: str) -> set[str]:
        return set(roster.listing((*known, "named", *seen)).policies) - {*known, "named", "red"}

    others = [f"other{number}" for number in range(MAX_SEEN)]
    assert protected("other") == {"other"}
    assert protected(*others) == set(others)
    assert roster.problems() == {}
    assert protected(*others, "another") == set(others)
    assert "more than 64 have commits" in roster.problems()["channels"]
    assert protected(*others[1:], "another") == {*others[1:], "another"}
    assert roster.problems() == {}


def test_beside_a_list_alone_channels_that_logs_name_are_protected(tmp_path: Path) -> None:
    """A list whose components may serve any channel is accepted without one, and none was protected."""
    site = ToySite(tmp_path, [{**peer("listed", "docker/p"), "channels": []}], channels={})
    roster = FixedRoster(site.config)
    first = roster.listing(())
    assert first.policies == {}
    assert roster.listing(()) is first
    after = roster.listing(("red",))
    assert [one.name for one in after.components] == ["listed"]
    assert {name: one.law for name, one in after.policies.items()} == {"red": "adaptive"}
    assert roster.listing(("red",)) is after
    assert roster.problems() == {}
    roster.listing(tuple(f"other{number}" for number in range(MAX_SEEN + 1)))
    assert "more than 64 have commits" in roster.problems()["channels"]
