"""Real Hyperledger Fabric as the lab's system, where QIOI_FABRIC names a folder with its release archive unpacked."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from qioi.commands.lab import command
from qioi.lab.lab import Lab
from qioi.lab.options import LabOptions
from qioi.lab.systems.fabric import PROGRAMS
from qioi.lab.systems.fabric_files import network_document, write_package
from qioi.lab.systems.fabric_shape import shape_of
from qioi.processes.errors import LabError

BINARIES = os.environ.get("QIOI_FABRIC")


def options(**more: object) -> LabOptions:
    return LabOptions(mode="block", system="fabric", **more)  # type: ignore[arg-type]


def test_no_two_nodes_share_a_port() -> None:
    shape = shape_of(options(extra=("--chaincode", "smallbank", "--chaincode", "kv=AND('Org1MSP.peer')")))
    described = network_document(shape, ["mychannel"])["nodes"]
    ports = [node[key] for node in described for key in ("address", "operations") if key in node]
    ports += [f"127.0.0.1:{node.port + 2}" for node in (*shape.orderers, *shape.peers)]
    assert len(described) == 3 + 4 + 8
    assert len(set(ports)) == len(ports)
    assert shape.chaincodes == {"smallbank": "OR('Org1MSP.peer','Org2MSP.peer')", "kv": "AND('Org1MSP.peer')"}


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (LabOptions(system="fabric", mode="stream"), "no mode 'stream'; accepted is block"),
        (options(consenter="kafka"), "orders by raft here, not by 'kafka'"),
        (
            options(extra=("--processors", "2")),
            "no setting --processors; accepted are --chaincode, --max-message-count",
        ),
    ],
)
def test_what_fabric_does_not_have_is_refused(chosen: LabOptions, expected: str) -> None:
    with pytest.raises(LabError, match=expected):
        shape_of(chosen)


def test_a_package_is_known_by_its_content(tmp_path: Path) -> None:
    """The id is what `peer lifecycle chaincode calculatepackageid` prints: the label and the file's SHA-256."""
    one, other = (write_package("smallbank", tmp_path / name) for name in ("one.tar.gz", "other.tar.gz"))
    assert one == other
    label, _, digest = one.partition(":")
    assert label == "smallbank_1.0"
    assert (
        f"{digest}  {tmp_path}/one.tar.gz"
        in subprocess.run(["sha256sum", tmp_path / "one.tar.gz"], capture_output=True, text=True, check=True).stdout
    )


def test_without_binaries_one_line_says_what_to_fetch(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    words = ["up", "--dir", str(lab), "--system", "fabric"]
    without = CliRunner().invoke(command, words)
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS[1:]:
        (tmp_path / "bin" / name).touch()
    half = CliRunner().invoke(command, [*words, "--binaries", str(tmp_path)])
    for result in (without, half):
        assert result.exit_code == 1
        assert result.output.count("\n") == 1
        assert "https://github.com/hyperledger/fabric/releases" in result.output
    assert "has no bin/peer, config/core.yaml" in half.output
    assert not lab.exists()


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.skipif(BINARIES is None, reason="QIOI_FABRIC names no folder with Fabric's release archive")
def test_the_load_client_drives_real_fabric(lab: Lab, base_port: int, tmp_path: Path) -> None:
    assert BINARIES is not None
    small = options(peers_per_org=1, orderers=1, base_port=base_port, binaries=Path(BINARIES))
    network = lab.up(small, die_with_parent=True)
    assert all(entry.ready and len(entry.pids) == 1 for entry in lab.status())
    assert network.mode == "block"
    found = tmp_path / "load.json"
    load = lab.load_command(["--rate", "20", "--warmup", "1s", "--duration", "3s", "--json", str(found)])
    subprocess.run(load, check=True, capture_output=True, timeout=120)
    document = json.loads(found.read_text())
    assert document["committed"] > 0
    assert document["failed"] == 0
    # The lines that the daemon reads are Fabric's own.
    peers = [entry.log for entry in lab.status() if entry.node.role.value == "peer"]
    assert all("Committed block [" in log.read_text() for log in peers)
