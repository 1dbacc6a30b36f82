"""Containers of a real engine are found, followed, and let go."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engine_site import CHAINCODE, ORDERER, OTHER, PEER, EngineSite, commits
from waiting import PATIENCE, until

from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.recognise import Rule
from qioi.kernel.hierarchy import find_hierarchy
from qioi.model import Role

pytestmark = [pytest.mark.slow, pytest.mark.host]


@pytest.fixture
def discover(engine: EngineSite) -> Iterator[Callable[..., DockerDiscovery]]:
    made: list[DockerDiscovery] = []

    def make(**options: object) -> DockerDiscovery:
        made.append(DockerDiscovery(str(engine.socket), find_hierarchy().version, **options))  # type: ignore[arg-type]
        assert made[-1].wait(PATIENCE)
        return made[-1]

    yield make
    for one in made:
        one.close()


def roles(discovery: DockerDiscovery) -> dict[str, Role]:
    return {one.name: one.role for one in discovery.found().components}


def test_fabrics_own_are_found_without_any_configuration(
    engine: EngineSite, discover: Callable[..., DockerDiscovery]
) -> None:
    container = engine.run(PEER, "peer0.org1", rate=20)
    engine.run(ORDERER, "orderer1")
    engine.run(CHAINCODE, "cc")
    engine.run(OTHER, "db")
    engine.run(OTHER, "peer0org1_basic_ccaas")
    discovery = discover()
    assert roles(discovery) == {
        "peer0.org1": Role.PEER, "orderer1": Role.ORDERER, "cc": Role.CHAINCODE, "peer0org1_basic_ccaas": Role.CHAINCODE
    }  # fmt: skip
    peer = next(one for one in discovery.found().components if one.name == "peer0.org1")
    assert peer.cgroup == f"docker/{container}"
    hierarchy = find_hierarchy()
    assert (hierarchy.folder(peer.cgroup) / hierarchy.file).exists()
    assert peer.log is not None
    assert peer.log_format == "docker-json"
    until(lambda: b"Committed block" in open(peer.log, "rb").read())  # type: ignore[arg-type]  # noqa: SIM115, PTH123
    assert discovery.found().problems == {}


def test_no_rest_of_a_long_line_is_a_commit(engine: EngineSite, discover: Callable[..., DockerDiscovery]) -> None:
    engine.run_with_long_lines(PEER, "peer0", rate=20)
    (peer,) = discover().found().components
    blocks = commits(peer, 10)
    assert blocks == list(range(blocks[0], blocks[0] + len(blocks)))


def test_labels_and_rules(engine: EngineSite, discover: Callable[..., DockerDiscovery]) -> None:
    engine.run(OTHER, "aa", labels={"io.qioi.role": "peer", "io.qioi.channel": "red, blue", "io.qioi.threshold": "250"})
    engine.run(PEER, "bb", labels={"io.qioi.ignore": "true"})
    engine.run(OTHER, "mine-1")
    engine.run(OTHER, "cc", labels={"io.qioi.role": "king"})
    batch = engine.run(OTHER, "batch", labels={"io.qioi.best-effort": "true"})
    found = discover(rules=[Rule(Role.BROKER, image="post*", name="mine-*", channels=("red",))]).found()
    assert {one.name: (one.role, one.channels) for one in found.components} == {
        "aa": (Role.PEER, ("red", "blue")), "mine-1": (Role.BROKER, ("red",))
    }  # fmt: skip
    assert found.thresholds == {"red": 250.0, "blue": 250.0}
    assert found.best_effort == (f"docker/{batch}",)
    accepted = "peer, orderer, chaincode, broker, support, replica, client"
    assert found.problems == {"container cc": f"label io.qioi.role: 'king': accepted are {accepted}"}


def test_a_container_that_starts_late_and_one_that_goes(
    engine: EngineSite, discover: Callable[..., DockerDiscovery]
) -> None:
    discovery = discover()
    assert roles(discovery) == {}
    engine.run(PEER, "late")
    until(lambda: roles(discovery) == {"late": Role.PEER})
    with contextlib.closing(engine.client()) as client:
        client.api.rename("late", "later")
    until(lambda: roles(discovery) == {"later": Role.PEER})
    engine.remove("later")
    until(lambda: roles(discovery) == {})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_restarts_is_found_again(
    engine: EngineSite, discover: Callable[..., DockerDiscovery], number: int
) -> None:
    engine.run(PEER, "stays")
    engine.run(PEER, "goes")
    discovery = discover()
    before = discovery.found()
    engine.stop(number)
    until(lambda: f"docker engine {engine.socket}" in discovery.found().problems)
    assert discovery.found().components == before.components
    engine.start()
    until(lambda: discovery.found().problems == {})
    until(lambda: roles(discovery) == {"stays": Role.PEER, "goes": Role.PEER})
    engine.remove("goes")
    engine.run(PEER, "new")
    until(lambda: roles(discovery) == {"stays": Role.PEER, "new": Role.PEER})


def test_many_containers_come_and_go_and_nothing_is_left(
    engine: EngineSite, discover: Callable[..., DockerDiscovery]
) -> None:
    discovery = discover()
    threads, sockets = threading.active_count(), open_sockets()
    with contextlib.closing(engine.client()) as client:
        for start in range(0, 100, 20):
            names = [f"peer{number}" for number in range(start, start + 20)]
            for name in names:
                engine.run(PEER, name)
            until(lambda names=names: sorted(roles(discovery)) == sorted(names))  # type: ignore[misc]
            for name in names:
                client.api.remove_container(name, force=True)
            until(lambda: roles(discovery) == {})
    until(lambda: threading.active_count() == threads)  # a reader that is done ends a moment later
    # The events and one for everything else; another may stand by where the engine has hung up.
    until(lambda: open_sockets() <= sockets + 1)


def open_sockets() -> int:
    links = (str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return sum(link.startswith("socket:") for link in links)
