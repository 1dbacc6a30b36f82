"""Experiments for real, each a second or two: ledger, neighbours, daemon, perf. No figure is judged here."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stuck_ledger import stuck_ledger
from toy_experiment import load
from waiting import PATIENCE, until

from qioi.commands.experiment import TOO_NOISY
from qioi.experiment import catalogue
from qioi.experiment.errors import SpecError
from qioi.experiment.store import Store
from qioi.experiment.system import BENCHED
from qioi.experiment.system import DATABASES as SYSTEMS
from qioi.lab.lab import Lab


def heavy(name: str) -> bool:
    """Whether it needs Node or a JVM: minutes, and packages that nothing else needs."""
    spec = catalogue.find(name)
    return (
        any(load.driver == "caliper" for load in spec.loads.values())
        or any(arm.neighbours.spark for arm in spec.arms)
        or any(network.consenter not in {"raft", "solo"} for network in spec.networks.values())
    )


def benched(name: str) -> bool:
    """Whether it is about replicas without a ledger."""
    return any(network.system in BENCHED for network in catalogue.find(name).networks.values())


def asks_databases(name: str) -> bool:
    """Whether it needs a database, and with it Maven: :data:`DATABASES` are run for all."""
    return any(network.system in SYSTEMS for network in catalogue.find(name).networks.values())


HEAVY = [name for name in catalogue.names() if heavy(name) and not asks_databases(name)]
LIGHT = [name for name in catalogue.names() if not (heavy(name) or asks_databases(name) or benched(name))]
#: Of those on databases: with neighbours and a daemon, a session's reads and inserts, several inserts at once.
DATABASES = ["protect_database", "thesis_2_3", "thesis_4_5"]
#: One of those about replicas with real ones, and one with simulated ones: they differ in their flags.
REPLICAS = ["rdb_fig_14", "rdb_fig_16"]
#: Ports of a lab of four nodes, and how many labs stand side by side.
PORTS, SIDE_BY_SIDE = 40, 4


class Running:
    """`qioi experiment run` in a process and with a lab of its own."""

    def __init__(self, names: list[str], output: Path, base_port: int, *options: str) -> None:
        self.lab = Lab(output.with_name(f"{output.name}-lab"))
        command = [sys.executable, "-m", "qioi.cli", "experiment", "run", *names, *options]
        command += ["--base-port", str(base_port), "--dir", str(self.lab.directory)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, timeout: float = 4 * PATIENCE) -> str:
        output, _ = self.process.communicate(timeout=timeout)
        return output

    def clean(self) -> bool:
        return not self.lab.tree.root.exists and not self.lab.tree.pids() and not self.lab.directory.exists()


@pytest.fixture
def started() -> Iterator[list[Running]]:
    runs: list[Running] = []
    yield runs
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.communicate()
        run.lab.down()


def check(output: Path, name: str) -> None:
    """See that every cell measured what it should have."""
    (repeat,) = Store(output / name).repeats()
    assert name in (output / "report.html").read_text()
    assert Store(output / name).document.command.startswith(f"qioi experiment run {name} --smoke")
    if benched(name):
        assert all(cell.metrics["throughput"] > 0 for cell in repeat.cells.values())
        return
    for key, cell in repeat.cells.items():
        # On a busy machine it may all have been committed after the window, while the client drained.
        assert cell.metrics["goodput"] > 0, key
        assert cell.metrics["ledger.cores"] > 0, key
        folder = output / name / "repeats" / "1" / key
        assert (folder / "samples.csv").exists()
        (arm,) = (one for one in catalogue.find(name).arms if one.name == key.rsplit(".", 1)[1])
        neighbours = arm.neighbours.count
        assert ("neighbours.cores" in cell.metrics) == (neighbours > 0), key
        if neighbours:
            assert cell.metrics["neighbours.cores"] > 0, key
        assert ("daemon.cores" in cell.metrics) == (arm.protection is not None and arm.protection.law is not None), key


@pytest.mark.slow
@pytest.mark.alone  # four labs with windows of a second: beside more work what comes and goes is in no sample
@pytest.mark.parametrize("names", [LIGHT[::2], LIGHT[1::2]], ids=["half", "other half"])
def test_every_experiment_runs(started: list[Running], base_port: int, tmp_path: Path, names: list[str]) -> None:
    run_side_by_side(names, started, base_port, tmp_path)


@pytest.mark.slow
def test_replicas_without_a_ledger_are_measured(started: list[Running], base_port: int, tmp_path: Path) -> None:
    run_side_by_side(REPLICAS, started, base_port, tmp_path)


def run_side_by_side(names: list[str], started: list[Running], base_port: int, tmp_path: Path) -> None:
    shares = [share for index in range(SIDE_BY_SIDE) if (share := names[index::SIDE_BY_SIDE])]
    outputs = [tmp_path / str(index) / "run" for index in range(len(shares))]
    for index, (share, output) in enumerate(zip(shares, outputs, strict=True)):
        started.append(Running(share, output, base_port + PORTS * index, "--smoke", "--output", str(output)))
    for run, share, output in zip(started, shares, outputs, strict=True):
        said = run.finish()
        assert run.process.returncode == 0, said
        assert run.clean()
        for name in share:
            check(output, name)


@pytest.mark.slow
@pytest.mark.host
@pytest.mark.parametrize("name", HEAVY)
def test_the_heavy_ones_run(started: list[Running], base_port: int, tmp_path: Path, name: str) -> None:
    output = tmp_path / "run"
    started.append(Running([name], output, base_port, "--smoke", "--output", str(output)))
    said = started[0].finish(600)
    assert started[0].process.returncode == 0, said
    assert started[0].clean()
    check(output, name)


@pytest.mark.slow
@pytest.mark.host
@pytest.mark.skipif(shutil.which("mvn") is None or shutil.which("mariadbd") is None, reason="needs Maven and MariaDB")
@pytest.mark.parametrize("name", DATABASES)
def test_those_on_databases_run(started: list[Running], base_port: int, tmp_path: Path, name: str) -> None:
    output = tmp_path / "run"
    started.append(Running([name], output, base_port, "--smoke", "--output", str(output)))
    said = started[0].finish(600)
    assert started[0].process.returncode == 0, said
    assert started[0].clean()
    check(output, name)
    (repeat,) = Store(output / name).repeats()
    assert all(cell.metrics["kind.insert.count"] > 0 for cell in repeat.cells.values())


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_is_finished_and_goes_on(
    started: list[Running], base_port: int, tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    document["arms"] = document["arms"][:1]
    del document["papers"]
    document["figures"] = document["figures"][:1]
    load(document, tmp_path)
    output, file = tmp_path / "run", str(tmp_path / "toy.yaml")
    # The first run stays in its second repeat; the second is of the same build, and does not.
    first_done, stays = f"[ -e {output}/toy/repeats/1/repeat.json ]", f"{tmp_path}/stays"
    ledger = stuck_ledger(tmp_path, f'[ "$1" = load ] && {first_done} && [ ! -e {stays} ] && touch {stays}')
    monkeypatch.setenv("QIOI_LEDGER", str(ledger))
    run = Running([file], output, base_port, "--output", str(output))
    started.append(run)
    until(lambda: (tmp_path / "stays").exists() or run.process.poll() is not None)
    run.process.send_signal(signal.SIGINT)
    said = run.finish()
    assert run.process.returncode != 0, said
    assert "Traceback" not in said
    assert run.clean()
    assert [path.name for path in (output / "toy" / "repeats").iterdir()] == ["1"]
    assert "toy" in (output / "report.html").read_text()
    first = (output / "toy" / "repeats" / "1" / "repeat.json").read_text()
    again = Running([file], output, base_port, "--resume", str(output))
    started.append(again)
    said = again.finish()
    repeats = Store(output / "toy").repeats()
    # A repeat that the machine was too noisy for is measured again, at most as often as there are repeats.
    enough = sum(repeat.quiet for repeat in repeats) == 3
    assert enough or len(repeats) == 6
    assert again.process.returncode == (0 if enough else TOO_NOISY), said
    assert (output / "toy" / "repeats" / "1" / "repeat.json").read_text() == first
    assert Store(output / "toy").document.command.startswith(f"qioi experiment run {file} ")
    host = json.loads((output / "toy" / "run.json").read_text())["host"]
    assert {"kernel", "cores", "pressure", "versions", "cgroup_hierarchies", "load_average", "seed"} <= host.keys()


@pytest.mark.slow
def test_after_an_interruption_whose_cleanup_fails_no_other_experiment_is_begun(
    started: list[Running], base_port: int, tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleanup's error takes the interruption's place, and one that fails does not keep the others from running."""
    document["arms"] = document["arms"][:1]
    del document["papers"]
    document["figures"] = document["figures"][:1]
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        load({**document, "name": folder.name}, folder)
    output, stays = tmp_path / "run", tmp_path / "stays"
    ledger = stuck_ledger(tmp_path, f'[ "$1" = load ] && [ ! -e {stays} ] && touch {stays}')
    monkeypatch.setenv("QIOI_LEDGER", str(ledger))
    run = Running([str(folder / "toy.yaml") for folder in folders], output, base_port, "--output", str(output))
    started.append(run)
    until(lambda: stays.exists() or run.process.poll() is not None)
    (output / "one" / "repeats" / "1" / "logs-tiny").touch()  # a file, where the folder of the nodes' logs is to be
    run.process.send_signal(signal.SIGINT)
    said = run.finish()
    assert run.process.returncode != 0, said
    assert "logs-tiny" in said
    assert run.clean()
    assert not (output / "two").exists()


def test_nothing_starts_when_two_experiments_have_one_name(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text((Path(catalogue.__file__).parent / "catalogue" / "05-fig-8.yaml").read_text())
    with pytest.raises(SpecError, match="fig_8: two experiments have this name"):
        catalogue.find_all(("fig_9", "fig_8", str(own)))
    assert [spec.name for spec in catalogue.find_all(("fig_8", "fig_8"))] == ["fig_8"]


@pytest.mark.slow
def test_nothing_starts_when_a_name_is_wrong(started: list[Running], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: x\nrepeats: 0\n")
    output = tmp_path / "run"
    run = Running(["fig_99", str(tmp_path / "bad.yaml")], output, 19_000, "--output", str(output))
    started.append(run)
    said = run.finish()
    assert run.process.returncode != 0
    assert "no experiment 'fig_99'" in said
    assert "bad.yaml: repeats" in said
    assert "bad.yaml: arms" in said
    assert not output.exists()
