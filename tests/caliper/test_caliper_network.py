"""The bundled network under unmodified clients (Caliper's connector, fabric-gateway) and unmodified Node chaincode."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bundled_network import BundledNetwork
from node_network import node_network, start
from waiting import PATIENCE

from qioi.lab.caliper import file_target, run
from qioi.lab.caliper_files import Overrides
from qioi.lab.npm import find_node, install
from qioi.processes.errors import LabError

# What npm has to fetch comes first, once.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
#: Rounds in which nothing can conflict, so nothing may fail.
PEACEFUL = {"create", "open", "init", "query", "read"}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BundledNetwork]:
    try:
        find_node()
    except LabError as error:
        pytest.skip(str(error))
    network = node_network(tmp_path_factory.mktemp("network"))
    try:
        start(network)
        yield network
    finally:
        network.down()


@pytest.mark.parametrize("name", ["smallbank", "simple", "marbles"])
def test_the_stock_connector(network: BundledNetwork, configs: Path, tmp_path: Path, name: str) -> None:
    said: list[str] = []
    small = Overrides(workers=2, transactions=40, rate=40, load=6)
    target = file_target(network.description, configs)
    finished = run(name, target, small, tmp_path / "out", say=said.append)
    assert finished.problems == []
    for entry in finished.rounds:
        assert entry.succeeded is not None
        assert entry.failed is not None
        assert entry.succeeded + entry.failed >= 40
        if entry.label in PEACEFUL:
            assert [str(kind["message"]) for kind in entry.errors] == []
            assert entry.failed == 0
        # What else fails is a conflict, as on Fabric.
        assert {str(kind["message"]) for kind in entry.errors} <= {"committed as MVCC_READ_CONFLICT (11)"}
        assert entry.latency_ms is not None
    assert "<html" in (tmp_path / "out" / "report.html").read_text()
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [entry["label"] for entry in result["rounds"]] == [entry.label for entry in finished.rounds]
    assert any("submitted" in line for line in said)


def session(script: str, network: BundledNetwork, configs: Path, channel: str = "session") -> list[str]:
    """What a session of the unmodified Node client prints."""
    node, _ = find_node()
    try:
        done = subprocess.run(
            [node, "--no-deprecation", str(Path(__file__).with_name(script)), str(network.description), channel],
            env={**os.environ, "NODE_PATH": str(install(configs))},
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        # What it holds are bytes, whatever was asked for.
        said, wrong = ((text or b"").decode() for text in (late.stdout, late.stderr))
        pytest.fail(f"no end after {late.timeout:.0f} s; it had said:\n{said}\nand on stderr:\n{wrong}")
    assert done.stderr == "", done.stdout
    return done.stdout.splitlines()


def test_a_client_sees_what_fabric_shows(network: BundledNetwork, configs: Path, data: Path) -> None:
    """The same session as was recorded with Fabric 2.5.16: results, errors, validation codes, events, blocks."""
    found = session("gateway-session.js", network, configs)
    assert found == (data / "gateway-session.txt").read_text().splitlines()


def test_a_client_reads_the_ledger_as_fabrics(network: BundledNetwork, configs: Path, data: Path) -> None:
    """qscc and cscc, checkpoints, blocks with private data, signing elsewhere, calls whose time is over."""
    found = session("ledger-session.js", network, configs, "mychannel")
    assert found == (data / "ledger-session.txt").read_text().splitlines()


def test_all_that_a_chaincode_can_ask_for(network: BundledNetwork, configs: Path) -> None:
    """State, ranges in pages, composite keys, transient data, events, the creator, another chaincode."""
    expected = Path(__file__).parent.parent / "data" / "tour-session.txt"
    assert session("tour-session.js", network, configs) == expected.read_text().splitlines()
