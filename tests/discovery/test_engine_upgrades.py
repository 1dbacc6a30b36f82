"""An engine and its runtime are upgraded beneath a daemon that goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from toy_engine import Engine as ToyEngine

from qioi.controller.guard.journal import Entry
from qioi.controller.levers.lever import GroupId
from qioi.discovery.engine import Engine, EngineError
from qioi.discovery.engine_records import EngineRecords
from qioi.discovery.records import RefusedError, UnsuitableError
from qioi.discovery.told import ToldFiles
from qioi.discovery.weights import linear, quadratic
from qioi.model import Owner, OwnerKind


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[ToyEngine]:
    toy = ToyEngine(tmp_path / "sock", {"peer": {"HostConfig": {"CpuShares": 0}}})
    toy.groups["peer"] = tmp_path / "cpu.weight"
    yield toy
    toy.shutdown()
    toy.server_close()


@pytest.fixture
def records(tmp_path: Path) -> Iterator[EngineRecords]:
    with closing(EngineRecords(ToldFiles(tmp_path / "told"))) as records:
        yield records


def entry(toy: ToyEngine, *ours: int) -> Entry:
    owner = Owner(OwnerKind.DOCKER, "peer", str(toy.server_address))
    return Entry("docker/peer", "cpu.weight", GroupId(0, 0), 100, ours, owner)


def on_record(toy: ToyEngine) -> int:
    facts = toy.facts["peer"]
    assert facts is not None
    return int(facts["HostConfig"]["CpuShares"])


def test_a_share_is_converted_as_the_runc_does_that_is_installed_now(
    toy: ToyEngine, records: EngineRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("qioi.discovery.engine.time.monotonic", lambda: now[0])
    toy.runc = "1.3.1"
    records.update(entry(toy, 400), 400, None)
    assert linear(on_record(toy)) == 400
    toy.runc = "1.3.2"
    now[0] += 2.0  # no update of one container is sooner (owners.PAUSE)
    records.update(entry(toy, 400, 800), 800, None)
    assert quadratic(on_record(toy)) == 800
    now[0] += 2.0
    records.update(entry(toy, 400, 800), 100, frozenset({800}))
    assert quadratic(on_record(toy)) == 100


def test_an_engine_that_refuses_the_version_of_the_api_is_asked_anew_which_it_speaks(
    toy: ToyEngine, records: EngineRecords
) -> None:
    records.update(entry(toy, 400), 400, None)
    toy.api = "1.44"
    with pytest.raises(EngineError, match=r"client version 1\.41 is too old") as raised:
        records.update(entry(toy, 400, 800), 800, None)
    assert not isinstance(raised.value, RefusedError)  # it holds for all containers
    assert records.update(entry(toy, 400, 800), 800, None) == {800}


def test_a_runtime_whose_weights_are_not_known_is_asked_again_seldom_and_leaves_nothing_behind(
    toy: ToyEngine, records: EngineRecords, tmp_path: Path
) -> None:
    toy.runtime = "crun"
    with pytest.raises(UnsuitableError, match="its runtime is not runc"):
        records.update(entry(toy, 400), 400, None)
    assert not ToldFiles(tmp_path / "told").any()
    assert len(records._engines) == 1, "the connection stays"


@pytest.mark.parametrize("runtime", ["crun", "runsc", "io.containerd.kata.v2", "old-runc"])
def test_a_container_with_a_runtime_of_its_own_is_told_nothing_by_the_engines(
    toy: ToyEngine, records: EngineRecords, tmp_path: Path, runtime: str
) -> None:
    """`docker run --runtime crun`, beside runc as the engine's default."""
    container = toy.facts["peer"]
    assert container is not None
    container["HostConfig"]["Runtime"] = runtime
    with pytest.raises(UnsuitableError, match=f"runtime is {runtime}, not runc"):
        records.update(entry(toy, 400), 400, None)
    assert (on_record(toy), ToldFiles(tmp_path / "told").any()) == (0, False)
    assert records.update(entry(toy, 400), 100, frozenset({400})) == set(), "nothing of ours is there to put back"


@pytest.mark.parametrize("runtime", ["runc", "io.containerd.runc.v2", ""])
def test_every_name_of_the_engines_own_runc_is_known(toy: ToyEngine, records: EngineRecords, runtime: str) -> None:
    container = toy.facts["peer"]
    assert container is not None
    container["HostConfig"]["Runtime"] = runtime
    assert records.update(entry(toy, 400), 400, None) == {400}
    assert linear(on_record(toy)) == 400


def test_what_is_refused_for_one_container_leaves_the_connection_open(toy: ToyEngine, records: EngineRecords) -> None:
    records.update(entry(toy, 400), 400, None)
    before = records._engines.copy()
    toy.facts["peer"] = None
    with pytest.raises(RefusedError):
        records.update(entry(toy, 400, 800), 800, None)
    assert records._engines == before


def test_the_version_is_asked_for_once_in_a_round_of_updates(toy: ToyEngine) -> None:
    with closing(Engine(str(toy.server_address))) as engine:
        assert engine.runc_version() == "1.1.5"
        toy.runc = "1.3.2"
        assert engine.runc_version() == "1.1.5"
