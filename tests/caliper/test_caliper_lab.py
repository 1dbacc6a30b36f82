"""``qioi lab caliper`` as a user types it, against a lab with the bundled contracts."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_ports
from waiting import PATIENCE

from qioi.experiment.caliper_driver import Caliper
from qioi.experiment.drivers import Drive, client_metrics
from qioi.experiment.spec import Timing
from qioi.experiment.system import LoadSpec
from qioi.lab.caliper_files import find_configs
from qioi.lab.lab import Lab
from qioi.lab.npm import find_node
from qioi.processes.errors import LabError

#: What npm has to fetch comes first, once.
pytestmark = pytest.mark.timeout(1800)
COMMAND = [sys.executable, "-m", "qioi.cli", "lab", "caliper"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    try:
        find_node()
    except LabError as error:
        pytest.skip(str(error))
    lab = Lab(tmp_path_factory.mktemp("caliper") / "lab")
    try:
        up = [*COMMAND[:-1], "up", "--dir", str(lab.directory), "--peers-per-org", "1"]
        up += ["--base-port", str(free_ports())]
        up += ["--chaincode", "smallbank", "--chaincode", "simple"]
        up += ["--chaincode", "marbles=AND('Org1MSP.peer','Org2MSP.peer')"]
        subprocess.run(up, check=True, capture_output=True, text=True, timeout=2 * PATIENCE)
        yield lab
    finally:
        lab.down()


@pytest.mark.slow
def test_smallbank_in_the_lab(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [
            *COMMAND,
            "smallbank",
            "--dir",
            str(lab.directory),
            "--transactions",
            "60",
            "--rate",
            "60",
            "--output",
            str(out),
        ],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rounds = {entry["label"]: entry for entry in json.loads((out / "result.json").read_text())["rounds"]}
    assert (rounds["create"]["succeeded"], rounds["create"]["failed"]) == (60, 0)
    assert rounds["mix"]["succeeded"] > 0
    assert rounds["mix-load"]["succeeded"] > 0
    assert "create" in done.stdout
    assert lab.client_group().pids() == ()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "peaceful"), [("simple", {"open", "query"}), ("marbles", {"init", "read"})])
def test_the_other_contracts_in_the_lab(lab: Lab, tmp_path: Path, name: str, peaceful: set[str]) -> None:
    out = tmp_path / "out"
    sizes = ["--transactions", "40", "--rate", "40", "--output", str(out)]
    done = subprocess.run(
        [*COMMAND, name, "--dir", str(lab.directory), *sizes],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rounds = {entry["label"]: entry for entry in json.loads((out / "result.json").read_text())["rounds"]}
    assert peaceful < set(rounds)
    for label, entry in rounds.items():
        assert entry["succeeded"] > 0, label
        if label in peaceful:
            assert entry["failed"] == 0, label


#: Every transaction is refused: the contract has no such function.
REFUSED = """
const ContractWorkload = require('{workloads}/contract-workload');
class Refused extends ContractWorkload {{
    constructor() {{ super('simple'); }}
    async submitTransaction() {{ await this.submit('no-such-function'); }}
}}
module.exports.createWorkloadModule = () => new Refused();
"""


@pytest.mark.slow
def test_an_experiment_s_round_that_commits_nothing_is_a_finding(lab: Lab, tmp_path: Path) -> None:
    """The command itself fails: its user sees at once that nothing has come of it."""
    (tmp_path / "refused.js").write_text(REFUSED.format(workloads=find_configs() / "workloads"))
    control = {"type": "fixed-load", "opts": {"transactionLoad": 2, "startTps": 20}}
    workload = {"module": "refused.js", "arguments": {"invokerMspIds": ["Org1MSP"]}}
    entry = {"label": "all", "rateControl": control, "workload": workload}
    benchmark = tmp_path / "refused.json"
    benchmark.write_text(json.dumps({"test": {"workers": {"number": 1}, "rounds": [entry]}}))
    load = LoadSpec(driver="caliper", benchmark=str(benchmark), round="all", clients=2)
    with contextlib.ExitStack() as stack:
        driver = Caliper(stack, Drive(lab, load, Timing(warmup=0.5, duration=2.0), 1, tmp_path))
        while driver.running():
            time.sleep(0.1)
        found = driver.result().figures
    assert client_metrics(found) == {"throughput": 0.0, "failed": float(found.failed), "goodput": 0.0}
    assert found.failed > 0


@pytest.mark.slow
def test_an_interrupt_ends_every_process(lab: Lab, tmp_path: Path) -> None:
    argv = [*COMMAND, "smallbank", "--dir", str(lab.directory), "--rounds", "create", "--output", str(tmp_path / "out")]
    argv += ["--duration", "600"]  # it does not end by itself
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = ""
        while "submitted" not in line:
            line = process.stdout.readline()
            assert line, "it ended before its first progress line"
        assert len(lab.client_group().pids()) == 3  # the manager and two workers, in the client's group
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 1
        assert lab.client_group().pids() == ()
    finally:
        process.kill()
        process.wait()


def test_without_a_lab(tmp_path: Path) -> None:
    argv = [*COMMAND, "smallbank", "--dir", str(tmp_path / "none")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: no lab is running in ")
    assert done.stderr.count("\n") == 1


def test_what_it_takes_is_said_without_node(tmp_path: Path) -> None:
    network = tmp_path / "fabric.yaml"
    network.write_text(
        "version: '2.0.0'\ncaliper: {blockchain: fabric}\nchannels: []\norganizations: [{mspid: Org1MSP}]\n",
    )
    argv = [*COMMAND, "smallbank", "--network", str(network), "--output", str(tmp_path / "out")]
    done = subprocess.run(argv, env={"PATH": ""}, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "Error: node is not installed: `apt-get install nodejs` (Caliper runs on Node.js)",
    )
    assert not (tmp_path / "out").exists()
