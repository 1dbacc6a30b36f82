"""Ordering by the sequencer: it is a component of its own, beside the orderers that are its facades."""

from __future__ import annotations

from pathlib import Path

import pytest
from node_names import named

from qioi.lab.lab import Lab
from qioi.lab.network import Network, Node
from qioi.lab.options import LabOptions
from qioi.lab.readiness import leaderless
from qioi.model import Role


@pytest.mark.parametrize(("pages", "lacks"), [((1, 1), ()), ((1, 0), ("mychannel",)), ((0, 0), ("mychannel",))])
def test_every_facade_must_be_connected(
    pages: tuple[int, ...], lacks: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = 'qioi_orderer_sequencer_connected{channel="mychannel"}'
    shown = {f"at{n}": f"{series} {one}\n" for n, one in enumerate(pages)}
    monkeypatch.setattr("qioi.lab.readiness.ask", lambda address, path, patience: shown[address])
    nodes = tuple(Node(name, Role.ORDERER, "", name, ("orderer",), tmp_path / name) for name in shown)
    assert leaderless(Network(tmp_path, ("mychannel",), "stream", "sequencer", nodes)) == lacks


@pytest.mark.slow
@pytest.mark.host
def test_a_lab_is_ordered_by_the_sequencer(lab: Lab, base_port: int) -> None:
    options = LabOptions(peers_per_org=1, orderers=2, consenter="sequencer", base_port=base_port, sequencer_memory=True)
    network = lab.up(options, say=lambda line: None)
    assert named(network, Role.BROKER) == ("sequencer1",)
    components = {entry["name"]: entry for entry in lab.state()["components"]}
    assert components["sequencer1"]["role"] == "broker"
    assert all(entry.ready and len(entry.pids) == 1 for entry in lab.status())
    assert "as in simulated NVDIMM" in (lab.directory / "log" / "sequencer1.log").read_text()
    assert lab.down()
