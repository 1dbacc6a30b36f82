"""A lab and an engine that does not know a container or an image, or fails; and which labs run in one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_engine import Engine as ToyEngine
from waiting import until

from qioi.discovery.engine import NoContainerError
from qioi.lab import orphan_cleanup
from qioi.lab.containers import HOST_IMAGE, NAME_LABEL, ContainerRun, Containers
from qioi.lab.demo import clear
from qioi.lab.engine import LabEngine
from qioi.lab.folder import MARKER, marker_of
from qioi.lab.lab import STATE, Lab
from qioi.lab.network import find_binary
from qioi.lab.options import LabOptions
from qioi.processes.errors import LabError
from qioi.processes.launch import Running, launch
from qioi.processes.tree import Program, Tree

ID = "5" * 64


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[ToyEngine]:
    toy = ToyEngine(tmp_path / "sock", {})
    yield toy
    toy.shutdown()
    toy.server_close()


@pytest.fixture
def engine(toy: ToyEngine, tmp_path: Path) -> LabEngine:
    return LabEngine(str(tmp_path / "sock"))


def test_a_container_that_is_not_there_is_no_error(engine: LabEngine) -> None:
    assert engine.state("nobody") is None
    assert engine.logs("nobody") == b""
    engine.remove("nobody")
    with pytest.raises(NoContainerError):
        engine.inspect("nobody")


def test_an_engine_that_fails_is_told_as_the_labs_error(toy: ToyEngine, engine: LabEngine) -> None:
    toy.facts["peer"] = None
    for ask in (engine.inspect, engine.state):
        with pytest.raises(LabError, match=r"^the container engine: .*driver overlay2 failed$"):
            ask("peer")


@pytest.fixture
def peer(toy: ToyEngine, tree: Tree) -> Running:
    """A container that runs: a process of the test's."""
    process = tree.start(Program(ID, ["sleep", "1000"]))
    facts = {"State": {"Pid": process.pid, "Running": True}, "Config": {"Labels": {NAME_LABEL: "peer"}}}
    toy.facts[ID] = {**facts, "LogPath": "/log"}
    return process


@pytest.mark.usefixtures("peer")
def test_a_container_that_goes_has_no_log(toy: ToyEngine, tree: Tree, tmp_path: Path) -> None:
    containers = Containers("lab", str(tmp_path / "sock"), tmp_path / "gates", tree.mounts)
    containers.refresh()
    assert containers.log_of("peer") == (Path("/log"), "docker-json")
    del toy.facts[ID]
    assert containers.log_of("peer") is None


def mark(folder: Path, socket: Path) -> None:
    """Make what `qioi lab up --runtime docker` does, as far as it counts here."""
    folder.mkdir()
    (folder / MARKER).write_text(f"x\n{socket}\n\n")
    (folder / STATE).touch()


@pytest.fixture
def left(toy: ToyEngine, tmp_path: Path) -> Path:
    """What a killed command has left: a folder, and a container of which the engine does not answer."""
    mark(tmp_path / "lab", tmp_path / "sock")
    toy.facts["peer"] = None
    return tmp_path / "lab"


def test_the_cleanup_tries_again_when_the_engine_has_failed(
    toy: ToyEngine, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphan_cleanup, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(orphan_cleanup, "time", SimpleNamespace(sleep=lambda _seconds: toy.facts.clear()))
    assert orphan_cleanup.take_down(left, marker_of(left))
    assert not left.exists()


def test_a_demo_goes_on_where_the_engine_fails_about_another_one(left: Path, caplog: pytest.LogCaptureFixture) -> None:
    clear(left)
    assert "driver overlay2 failed" in caplog.text
    assert left.exists()


def test_of_two_labs_that_come_up_in_one_folder_the_second_leaves_the_first_alone(
    peer: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIOI_LEDGER", "/bin/true")
    second = Lab(tmp_path / "lab")
    mark(tmp_path / "lab", tmp_path / "sock")
    with pytest.raises(LabError, match="already running"):
        second.up(LabOptions())
    assert (tmp_path / "lab" / STATE).exists()
    assert peer.poll() is None


def test_a_lab_that_came_up_meanwhile_goes_with_its_containers(toy: ToyEngine, peer: Running, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    mark(tmp_path / "lab", tmp_path / "sock")
    assert lab.down()
    assert toy.facts == {}
    assert peer.wait() == -signal.SIGTERM
    assert not (tmp_path / "lab").exists()


def test_an_image_that_another_lab_took_is_made_again(
    toy: ToyEngine, tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lab that ends removes the images that no container uses, and before the first neighbour none does."""
    monkeypatch.setenv("QIOI_LEDGER", "/bin/true")  # whatever: it is not run
    binary = str(find_binary())
    containers = Containers("lab", str(tmp_path / "sock"), tmp_path / "gates", tree.mounts)
    containers.create()
    for program in (binary, "/bin/sh"):
        toy.images.clear()
        for name in ("one", "another"):
            containers.start(Program(name, [program]))
        (image,) = toy.images
        assert (image == HOST_IMAGE) == (program != binary)
    assert toy.facts.keys() == {"lab-one", "lab-another"}


class LateEngine:
    """Hears of the end of a container only when it is asked again, and has its last line then."""

    def __init__(self, pid: int) -> None:
        self._pid, self._asked = pid, 0

    def state(self, _container: str) -> dict[str, Any]:
        self._asked += 1
        return {"Pid": self._pid, "Running": self._asked <= 2, "ExitCode": 7}

    def logs(self, _container: str) -> bytes:
        return b"begins\n" if self._asked <= 2 else b"begins\nends\n"


def test_a_log_is_whole_once_its_container_has_ended(tree: Tree, tmp_path: Path) -> None:
    process = launch(["true"], tree.group("peer").create())
    engine: Any = LateEngine(process.pid)
    run = ContainerRun(engine, "toy", tmp_path / "log")
    until(lambda: run.poll() is not None)
    assert run.returncode == 7
    assert (tmp_path / "log").read_text() == "begins\nends\n"
    process.wait()
