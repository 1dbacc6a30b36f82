"""What nobody has foreseen ends no watch, and fills no log while it is tried again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest
from toy_engine import Engine as ToyEngine
from waiting import until

from qioi.controller.guard.journal import Entry
from qioi.controller.levers.lever import GroupId
from qioi.discovery import docker, units
from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.owners import EngineOwners
from qioi.discovery.tracebacks import KEPT, Tracebacks
from qioi.discovery.units import UnitDiscovery, UnitRule
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Owner, Role


class Failing:
    """Fails in a way that nobody has foreseen, whatever it is asked, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, *_: object, **__: object) -> NoReturn:
        self.asked += 1
        raise ArithmeticError("unforeseen")

    def update(self, entry: Entry, wanted: int, only_from: frozenset[int] | None) -> set[int]:
        self()

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ToyEngine]:
    engine = ToyEngine(tmp_path / "sock", {})
    yield engine
    engine.shutdown()
    engine.server_close()


@pytest.fixture
def tracebacks(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What is logged as an error, while everything is tried again without pauses."""
    for module in ("docker", "units", "owners"):
        monkeypatch.setattr(f"qioi.discovery.{module}.RETRY", 0.01)
    caplog.set_level(logging.ERROR)
    return caplog


def fail(error: str) -> Exception:
    try:
        raise ArithmeticError(error)
    except ArithmeticError as raised:
        return raised


def test_a_traceback_is_logged_when_it_is_another(caplog: pytest.LogCaptureFixture) -> None:
    said = Tracebacks()
    for error in ("a", "a", "b", "a", "b"):
        said.say("docker", fail(error))
    assert [record.getMessage() for record in caplog.records] == ["docker", "docker"]
    assert ["ArithmeticError: a" in caplog.text, "ArithmeticError: b" in caplog.text] == [True, True]
    for number in range(KEPT):
        said.say("docker", fail(str(number)))
    said.say("docker", fail("a"))  # that long ago it may have been another fault
    assert len(caplog.records) == 2 + KEPT + 1


def test_what_was_found_cannot_be_made_one_value_of(
    engine: ToyEngine, tracebacks: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing()
    with monkeypatch.context() as patch:
        patch.setattr(docker, "gather", failing)
        discovery = DockerDiscovery(str(engine.server_address), 2)
        until(lambda: failing.asked > 6 or not discovery._thread.is_alive())
        assert "ArithmeticError: unforeseen" in str(discovery.found().problems)
    with closing(discovery):
        until(lambda: discovery.wait(0) and not discovery.found().problems)
    assert 1 <= len(tracebacks.records) <= 2  # at the list, and at what is said of that


def test_an_engine_is_asked_again_where_there_is_no_thread_for_its_events(
    engine: ToyEngine, tracebacks: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def crowded(thread: threading.Thread) -> None:
        if thread.name == "qioi-docker-events":
            raise RuntimeError("can't start new thread")  # as Python has it where clone(2) gives EAGAIN
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", crowded)
        discovery = DockerDiscovery(str(engine.server_address), 2)
        expected = f"{engine.server_address}: no thread for its events: can't start new thread: asked again"
        until(lambda: expected in str(discovery.found().problems))
    with closing(discovery):
        until(lambda: discovery.wait(0) and not discovery.found().problems)
    assert tracebacks.records == []


def test_systemds_answers_of_unknown_shape_are_logged_once(
    tmp_path: Path, tracebacks: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing()
    monkeypatch.setattr(units, "Systemd", failing)
    with closing(UnitDiscovery(Hierarchy(2, tmp_path), [UnitRule(Role.PEER, "*")])) as discovery:
        until(lambda: failing.asked > 3)
        assert "ArithmeticError: unforeseen" in str(discovery.found().problems)
    assert [record.getMessage() for record in tracebacks.records] == ["systemd"]


def test_a_record_that_fails_is_logged_once(tmp_path: Path, tracebacks: pytest.LogCaptureFixture) -> None:
    failing = Failing()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cpu.shares").write_text("2048")
    with closing(EngineOwners(Hierarchy(1, tmp_path), tmp_path / "disk", pause=0.0)) as owners:
        owners._keepers = {"docker": failing}
        owners.tell(Entry("a", "cpu.shares", GroupId(0, 0), 1024, (2048,), Owner("docker", "a", "/sock")))
        until(lambda: failing.asked > 3)
        assert "ArithmeticError: unforeseen" in (owners.problem() or "")
    assert [record.getMessage() for record in tracebacks.records] == ["record docker a /sock"]
