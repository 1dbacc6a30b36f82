"""A ledger whose orderers alone write to a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from qioi.experiment import orderers_on_disk as apart
from qioi.experiment.session import lab_options
from qioi.experiment.system import NetworkSpec
from qioi.lab.lab import Lab
from qioi.lab.systems import SYSTEMS


@pytest.mark.slow
def test_the_orderers_ledgers_are_made_on_the_disk_and_removed(
    tmp_path: Path, base_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    monkeypatch.setattr(apart, "ORDERERS", disk)
    (disk / "left-by-a-killed-run").mkdir(parents=True)
    lab = Lab(tmp_path / "lab")
    spec = NetworkSpec(store="orderers", orgs=1, peers_per_org=1, orderers=1, consenter="solo")
    with apart.orderers_on_disk():
        network = lab.up(lab_options(spec, base_port), die_with_parent=True)
        try:
            assert [one.name for one in disk.iterdir()] == ["orderer1"]
            assert list((disk / "orderer1").glob(f"**/{network.channels[0]}/*")), list(disk.rglob("*"))
            assert not (lab.directory / "data" / "peer0-org1").is_symlink()
        finally:
            lab.down()
    assert not disk.exists()
    assert apart.NAME not in SYSTEMS
