"""Experiments about replicas without a ledger: what bft-bench is given, and what is taken from its result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toy_experiment import DOCUMENT, figures, filled, load

from qioi.experiment import catalogue
from qioi.experiment.errors import SpecError
from qioi.experiment.method import method
from qioi.experiment.plan import Cell, make_plan, make_smoke
from qioi.experiment.replicas import Found, children, command, measure_replicas, metrics_of, run
from qioi.experiment.session import title
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary, with_system
from qioi.experiment.system import BENCHED
from qioi.lab.network import find_binary
from qioi.processes.errors import LabError

RESULT: dict[str, Any] = {
    "kind": "real",
    "seconds": 6.0,
    "throughput": 1000.0,
    "operations": 5000.0,
    "latency": {"mean_ms": 3.0, "p50_ms": 2.0, "p95_ms": 5.0, "p99_ms": 9.0},
    "replicas": [
        {"id": 1, "stages": [{"stage": "batch", "saturation": 0.5}]},
        {"id": 2, "stages": [{"stage": "batch", "saturation": 0.25}]},
    ],
    "clients": {"cpu_us": 20.0},
    "cpu_us": 300.0,
    "stages_us": {"batch": 250.0},
    "floor": {"part": 0.75},
}


def cells(name: str) -> tuple[Cell, ...]:
    return make_plan(catalogue.find(name), 2).cells


def test_the_result_becomes_metrics() -> None:
    cell = next(cell for cell in cells("rdb_fig_11") if cell.load_name == "o5")
    metrics = metrics_of(msgspec.json.decode(json.dumps(RESULT), type=Found), cell)
    assert metrics["throughput"] == 1000
    assert metrics["ledger.cores"] == pytest.approx(0.3)
    assert metrics["ledger.ms_per_tx"] == pytest.approx(0.3)
    assert metrics["client.cores"] == pytest.approx(0.02)
    assert (metrics["primary.batch"], metrics["backup.batch"]) == (50, 25)
    assert (metrics["cpu.batch"], metrics["signatures"], metrics["varied"]) == (250, 75, 5)


BURNS = "import time\nwhile time.process_time() < 0.5: pass"


@pytest.mark.slow
def test_what_children_and_theirs_have_used_is_ours(tmp_path: Path) -> None:
    before = children()
    run(["sh", "-c", f"{sys.executable} -c '{BURNS}'; true"], tmp_path / "log", 60)
    assert children() - before >= 0.4  # of 0.5, in steps of 0.01


@pytest.mark.slow
def test_work_of_others_beside_replicas_is_seen(tmp_path: Path) -> None:
    """A busy process beside real and simulated replicas, which ended by itself and was not waited for."""
    for name in ("rdb_fig_7", "rdb_fig_9"):
        cell = cells(name)[0]
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            try:
                metrics = measure_replicas(cell, 1, tmp_path / name, smoke=True).metrics
            finally:
                busy.kill()
        assert metrics["others"] > 0


@pytest.mark.slow
def test_every_experiment_measures_real_and_simulated_replicas(tmp_path: Path) -> None:
    """A cell of each kind, as a smoke run has it; what steps cost is measured once for those that share it."""
    for name in catalogue.names():
        found = make_smoke(catalogue.find(name), 2).cells
        for system in BENCHED:
            if (cell := next((one for one in found if one.network.system == system), None)) is not None:
                metrics = measure_replicas(cell, 1, tmp_path / f"{name}-{system}", smoke=True).metrics
                assert metrics["throughput"] > 0, (name, system)
    assert (tmp_path / "costs.json").exists()


@pytest.mark.slow
def test_only_costs_that_are_measured_can_be_disturbed(tmp_path: Path) -> None:
    cell = next(one for one in make_smoke(catalogue.find("rdb_fig_16"), 2).cells)
    seen = [measure_replicas(cell, 1, tmp_path / str(number), smoke=True).metrics for number in range(2)]
    assert ["others" in metrics for metrics in seen] == [True, False]
    assert seen[0]["throughput"] == seen[1]["throughput"]


def test_flags_of_the_load_go_before_those_of_the_network() -> None:
    cell = cells("rdb_fig_13")[0]
    changed = msgspec.convert({"quota": 0.4, "auth": "none", "tls": True}, dict[str, str | float | bool])
    network = cell.network.model_copy(update={"flags": changed})
    load = cell.load.model_copy(update={"flags": {"auth": "rsa"}})
    words = command(Cell("n", network, "l", load, cell.arm, cell.timing), 7, Path("x.json"), smoke=False)
    assert words[1] == "bft-bench"
    assert {"--quota=0.4", "--auth=rsa", "--tls=true", "--seed=7", "--warmup=3s", "--json=x.json"} <= set(words)


def test_every_cell_has_flags_that_the_benchmark_knows() -> None:
    known = {
        mode: subprocess.run(
            [str(find_binary()), "bft-bench", *mode, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for mode in ((), ("simulate",))
    }
    for name in catalogue.names():
        for cell in make_plan(catalogue.find(name), 2).cells:
            if cell.network.system in BENCHED:
                words = command(cell, 1, Path("x.json"), smoke=False)
                mode = ("simulate",) if cell.network.system == "simulation" else ()
                for word in words[2 + len(mode) :]:
                    assert f" {word.split('=')[0]} " in known[mode], (name, cell.key, word)


def test_every_cell_and_sentence_says_whether_replicas_are_real() -> None:
    words = {"replicas": "real", "simulation": "simulated"}
    for name in catalogue.names():
        plan = make_plan(catalogue.find(name), 2)
        for cell in plan.cells:
            if (word := words.get(cell.network.system)) is not None:
                alone = [one for one in plan.cells if one.network_name == cell.network_name]
                assert word in title(cell, plan.cells)
                assert word in title(cell, alone), "a picture of one network"
                assert with_system("a sentence", cell, cell) == f"a sentence ({word})"


def test_a_sentence_that_compares_the_two_says_so_itself() -> None:
    real, simulated = (next(one for one in cells("rdb_fig_8") if one.network_name == name) for name in ("real", "sim4"))
    assert with_system("simulated to real", simulated, real) == "simulated to real"
    ledger = cells("fig_8")[0]
    assert with_system("a ledger", ledger, ledger) == "a ledger"


@pytest.mark.parametrize(
    ("name", "seconds", "virtual"), [("rdb_fig_7", True, False), ("rdb_fig_17", False, True), ("rdb_fig_8", True, True)]
)
def test_seconds_are_said_of_real_replicas_alone(name: str, seconds: bool, virtual: bool, tmp_path: Path) -> None:
    plan = make_plan(catalogue.find(name), 2)
    store = Store(tmp_path / name)
    filled(store, plan, [{cell.key: figures(cell.key, 100.0) for cell in plan.cells}])
    said = dict(method(Summary(store)))["Each cell"]
    assert ("3 s warm-up left out, 6 s measured" in said, "virtual time" in said) == (seconds, virtual)


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="replicas 2: 4 to 64"):
        run([str(find_binary()), "bft-bench", "simulate", "--replicas=2"], tmp_path / "log", 60)


def test_a_result_of_an_earlier_ledger_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "ledger"
    ledger.write_text('#!/bin/sh\nfor word; do case $word in --json=*) echo "{}" > "${word#--json=}";; esac; done\n')
    ledger.chmod(0o755)
    monkeypatch.setenv("QIOI_LEDGER", str(ledger))
    with pytest.raises(LabError, match=r"bench\.json: .*`seconds`: a qioi-ledger of this version is needed$"):
        measure_replicas(cells("rdb_fig_7")[0], 1, tmp_path / "cell", smoke=True)


@pytest.mark.parametrize(
    ("place", "change", "said"),
    [
        ("networks", {"system": "replicas"}, "load does not drive"),
        ("networks", {"flags": {"batch": 1}}, "flags are of the systems"),
        ("loads", {"driver": "bench"}, "takes flags in place of rate"),
        ("loads", {"varied": 3.0}, "of the driver bench"),
    ],
)
def test_what_does_not_go_together_is_refused(place: str, change: dict[str, Any], said: str, tmp_path: Path) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    first = next(iter(document[place]))
    document[place][first] |= change
    with pytest.raises(SpecError, match=said):
        load(document, tmp_path)
