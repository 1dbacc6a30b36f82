"""Experiments about replicas without a ledger: what bft-bench is given, and what is taken from its result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toy_experiment import DOCUMENT, load

from qioi.experiment import catalogue
from qioi.experiment.errors import SpecError
from qioi.experiment.plan import Cell, make_plan
from qioi.experiment.replicas import Found, command, condense, measure_replicas, ours, run
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
    metrics = condense(msgspec.json.decode(json.dumps(RESULT), type=Found), cell)
    assert metrics["throughput"] == 1000
    assert metrics["ledger.cores"] == pytest.approx(0.3)
    assert metrics["ledger.ms_per_tx"] == pytest.approx(0.3)
    assert metrics["client.cores"] == pytest.approx(0.02)
    assert (metrics["primary.batch"], metrics["backup.batch"]) == (50, 25)
    assert (metrics["cpu.batch"], metrics["signatures"], metrics["varied"]) == (250, 75, 5)


BURNS = "import time\nwhile time.process_time() < 0.5: pass"


def test_what_children_and_theirs_have_used_is_ours(tmp_path: Path) -> None:
    before = ours()
    run(["sh", "-c", f"{sys.executable} -c '{BURNS}'; true"], tmp_path / "log", 60)
    assert ours() - before >= 0.4  # of 0.5, in steps of 0.01


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


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="replicas 2: 4 to 64"):
        run([str(find_binary()), "bft-bench", "simulate", "--replicas=2"], tmp_path / "log", 60)


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
