"""An experiment of which everything runs in containers of a real engine. No figure is judged here."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_site import EngineSite
from ports import free_ports
from test_lab_docker import containers, engine_named, spotless

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiment"))

from toy_experiment import DOCUMENT, load

from qioi.experiment.store import Store
from qioi.lab.lab import CLIENT_GROUP, Lab

__all__ = ["engine_named"]  # the fixture

pytestmark = [pytest.mark.slow, pytest.mark.host]


def test_an_experiment_with_the_runtime_docker_measures_containers(engine: EngineSite, tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["networks"]["tiny"]["runtime"] = "docker"
    document["arms"] = [document["arms"][0], document["arms"][2] | {"against": "alone"}]
    document["figures"] = document["figures"][:1]
    del document["papers"]
    load(document, tmp_path)
    lab = tmp_path / "lab"
    command = [sys.executable, "-m", "qioi.cli", "experiment", "run", tmp_path / "toy.yaml", "--smoke"]
    command += ["--dir", lab, "--output", tmp_path / "run", "--base-port", free_ports()]
    said = tmp_path / "said"
    with said.open("w") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output)
    seen: set[str] = set()
    try:
        while process.poll() is None:
            seen |= containers(engine).keys()
            time.sleep(0.1)
        assert process.returncode == 0, said.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        Lab(lab).down()
    assert {"orderer1", "peer0-org1", CLIENT_GROUP, "sysbench1"} <= seen
    run = Store(tmp_path / "run" / "toy")
    (repeat,) = run.repeats()
    for key, cell in repeat.cells.items():
        arm = key.rsplit(".", 1)[1]
        seconds = json.loads((run.folder(repeat.number, key) / "load.json").read_text())["timeseries"]
        assert sum(one["tps"] for one in seconds) > 0, key  # in the window alone it may be none on a slow machine
        assert cell.metrics["peer.cores"] > 0, key
        assert ("neighbours.cores" in cell.metrics) == (arm == "qioi"), key
        assert ("daemon.cores" in cell.metrics) == (arm == "qioi"), key
    spotless(engine, lab)
