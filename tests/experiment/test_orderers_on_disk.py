"""A ledger whose orderers alone write to a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qioi.experiment import measure
from qioi.experiment import orderers_on_disk as apart
from qioi.experiment.orderers_on_disk import orderers_on_disk
from qioi.experiment.plan import SMOKE_RATE, SMOKE_TIMING, Cell
from qioi.experiment.session import lab_options
from qioi.experiment.spec import ArmSpec
from qioi.experiment.system import LoadSpec, NetworkSpec
from qioi.lab.flush_probe import FlushProbe
from qioi.lab.folder import MARKER
from qioi.lab.lab import Lab
from qioi.lab.systems import SYSTEMS
from qioi.processes.errors import LabError

pytestmark = pytest.mark.slow
SPEC = NetworkSpec(store="orderers", orgs=1, peers_per_org=1, orderers=1, consenter="solo")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab whose orderers' folder is below the test's own; down afterwards."""
    monkeypatch.setattr(apart, "DISK", tmp_path / "experiment")
    lab = Lab(tmp_path / "lab")
    yield lab
    lab.down()


def test_the_orderers_ledgers_are_made_on_the_disk_and_removed(lab: Lab, base_port: int) -> None:
    disk = apart.place(lab.directory)
    (disk / "left-by-a-killed-run").mkdir(parents=True)
    with orderers_on_disk():
        network = lab.up(lab_options(SPEC, base_port), die_with_parent=True)
        assert [one.name for one in disk.iterdir()] == ["orderer1"]
        assert list((disk / "orderer1").glob(f"**/{network.channels[0]}/*")), list(disk.rglob("*"))
        assert not (lab.directory / "data" / "peer0-org1").is_symlink()
        lab.down()
    assert not disk.exists()
    assert apart.NAME not in SYSTEMS


def test_another_process_takes_the_ledgers_on_the_disk_away_with_the_lab(lab: Lab, base_port: int) -> None:
    """As `qioi lab down`, or the next lab in that folder, of whichever kind, after this process was killed."""
    with orderers_on_disk():
        lab.up(lab_options(SPEC, base_port), die_with_parent=True)
    disk = apart.place(lab.directory)
    assert (disk / "orderer1").is_dir()
    assert Lab(lab.directory).down()
    assert not disk.exists()


def test_a_folder_that_is_not_named_after_the_lab_is_left_alone(lab: Lab, tmp_path: Path) -> None:
    """A marker that somebody has written must not make root remove what is not the lab's."""
    (others := tmp_path / "experiment-orderers-01234567").mkdir()
    lab.directory.mkdir()
    (lab.directory / MARKER).write_text(f"x\n\n{others}\n")
    assert lab.down()
    assert others.is_dir()


def test_flushes_are_probed_on_the_disk_of_the_orderers_ledgers(
    lab: Lab, base_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed = []

    class Noted(FlushProbe):
        def __init__(self, directory: Path) -> None:
            probed.append(directory)
            super().__init__(directory)

    monkeypatch.setattr(measure, "FlushProbe", Noted)
    cell = Cell("tiny", SPEC, "slow", LoadSpec(rate=SMOKE_RATE), ArmSpec(name="alone", title="alone"), SMOKE_TIMING)
    with orderers_on_disk():
        lab.up(lab_options(SPEC, base_port), die_with_parent=True)
        offer = measure.Offer({"": SMOKE_RATE}, None, seed=1)
        measure.Measurement(lab, cell, offer, tmp_path / "cell").run(lambda _: None)
        assert probed == [apart.place(lab.directory)]
        lab.down()


def test_flushes_of_all_other_ledgers_are_probed_beside_them(tmp_path: Path) -> None:
    assert {apart.flushed(tmp_path, store) for store in (None, "memory", "disk")} == {tmp_path}


def test_a_second_experiment_is_refused_and_leaves_the_first_one_s_ledgers(
    lab: Lab, base_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SYSTEMS, apart.NAME, apart.OrderersOnDisk)  # as the first one's process has it
    lab.up(lab_options(SPEC, base_port), die_with_parent=True)
    before = sorted(apart.place(lab.directory).rglob("*"))
    with orderers_on_disk(), pytest.raises(LabError, match="already running"):
        Lab(lab.directory).up(lab_options(SPEC, base_port))
    assert before
    assert set(before) <= set(apart.place(lab.directory).rglob("*"))


def test_labs_in_other_folders_have_other_disks(tmp_path: Path) -> None:
    assert apart.place(tmp_path / "a") != apart.place(tmp_path / "b")
