"""An engine that tells no events: its containers are listed at an interval, and that is said once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from toy_engine import Engine as ToyEngine
from waiting import until

from qioi.discovery import docker
from qioi.discovery import engine as engines
from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.engine import PODMAN
from qioi.kernel.hierarchy import find_hierarchy


def facts(name: str) -> dict[str, Any]:
    """Make a container of which this very process is the first: its group is not named after it, which is said."""
    return {
        "Name": name,
        "State": {"Running": True, "Pid": os.getpid()},
        "Config": {"Image": "hyperledger/fabric-peer", "Labels": {}},
        "HostConfig": {"LogConfig": {"Type": "k8s-file"}},
    }


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ToyEngine]:
    engine = ToyEngine(tmp_path / "sock", {"a": facts("peer0")})
    engine.runtime = "Podman Engine"
    yield engine
    engine.shutdown()
    engine.server_close()


def watch(engine: ToyEngine) -> DockerDiscovery:
    return DockerDiscovery(str(engine.server_address), find_hierarchy().version, kind=PODMAN)


def names(discovery: DockerDiscovery) -> set[str]:
    return {about for about in discovery.found().problems if about.startswith("container ")}


@pytest.mark.slow
@pytest.mark.parametrize("deaf", ["refused", "ended"])
def test_its_containers_are_listed_at_an_interval(
    engine: ToyEngine, deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "POLL", 0.01)
    monkeypatch.setattr(docker, "POLLS", 0.1)
    engine.deaf = deaf
    with closing(watch(engine)) as discovery:
        about = f"podman engine {engine.server_address}"
        said = until(lambda: "listed every" in (text := discovery.found().problems.get(about, "")) and text)
        assert discovery.wait(0)
        seen = {said}

        def shows(*expected: str) -> bool:
            seen.add(discovery.found().problems[about])
            return names(discovery) == {f"container {one}" for one in expected}

        assert shows("peer0")
        engine.facts["b"] = facts("peer1")
        until(lambda: shows("peer0", "peer1"))
        del engine.facts["a"]
        until(lambda: shows("peer1"))
        looks = len(engine.inspected)  # events are tried, and all is listed, a few times more
        until(lambda: shows("peer1") and len(engine.inspected) > looks + 3)
        assert seen == {said}, "said once"
        engine.event_every, engine.deaf = 0.1, None
        until(lambda: about not in discovery.found().problems)


def test_between_two_whole_lists_only_new_containers_are_looked_at(
    engine: ToyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "POLL", 0.01)
    monkeypatch.setattr(docker, "POLLS", 10_000.0)
    engine.deaf = "refused"
    with closing(watch(engine)) as discovery:
        until(lambda: "listed every" in str(discovery.found().problems))
        looks = engine.inspected.count("a")
        for number in range(5):
            engine.facts[f"b{number}"] = facts(f"orderer{number}")
            until(lambda: f"container orderer{number}" in names(discovery))  # noqa: B023 (called at once)
        assert engine.inspected.count("a") == looks


def test_one_end_of_the_events_is_no_want_of_them(engine: ToyEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when an engine restarts: it is listened to again."""
    monkeypatch.setattr(docker, "POLL", 10_000.0)
    engine.deaf = "once"
    with closing(watch(engine)) as discovery:
        until(lambda: engine.inspected.count("a") > 1)
        until(lambda: f"podman engine {engine.server_address}" not in discovery.found().problems)
        assert engine.deaf is None


def test_an_engine_that_never_answers_for_events_is_listed(engine: ToyEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a proxy before Docker's socket that waits for the whole answer before it hands on its headers."""
    monkeypatch.setattr(engines, "HEADERS", 0.1)
    monkeypatch.setattr(docker, "POLL", 0.01)
    engine.silent = {"events"}
    with closing(watch(engine)) as discovery:
        about = f"podman engine {engine.server_address}"
        until(lambda: names(discovery) == {"container peer0"})
        assert "listed every" in until(lambda: discovery.found().problems.get(about, ""))
        engine.facts["b"] = facts("peer1")
        until(lambda: names(discovery) == {"container peer0", "container peer1"})


def test_events_may_take_longer_than_their_headers(engine: ToyEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "HEADERS", 0.1)
    engine.event_every = 0.5
    asked = engines.Engine(str(engine.server_address))

    def subscribed() -> engines.Events | None:
        with suppress(engines.SlowError):  # as on a host that is short of CPU
            return asked.events()
        return None

    events = until(subscribed)
    assert [event["id"] for event, _ in zip(events, range(2), strict=False)] == ["ended", "ended"]
    events.close()
    asked.close()
