"""systemd refuses to set properties of one unit: the others are told, and none of QiOi's drop-ins stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_bus import BUS, NAME, SYSTEMD, ToyBus

from qioi.controller.guard.journal import Entry
from qioi.controller.levers.lever import GroupId
from qioi.discovery.records import RefusedError
from qioi.discovery.systemd import UNSET, NoUnitError, Systemd, SystemdError
from qioi.discovery.unit_records import UnitRecords
from qioi.model import OnRecord, Owner, OwnerKind

#: As `systemctl set-property --runtime` writes them.
DROP_IN = "# This is a drop-in unit file extension. Do not edit.\n[Service]\nCPUWeight={}\n"


@pytest.fixture
def drop_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that keeps the unit's weight; there is none yet."""
    monkeypatch.setattr("qioi.discovery.unit_records.FOLDERS", (tmp_path / "control", tmp_path / "transient"))
    file = tmp_path / "control" / f"{NAME}.d" / "50-CPUWeight.conf"
    file.parent.mkdir(parents=True)
    return file


def entry(*, kept: bool = False) -> Entry:
    found = (OnRecord("CPUWeight", 300 if kept else None, kept), OnRecord("CPUShares", None, False))
    owner = Owner(OwnerKind.SYSTEMD, NAME, found=found)
    return Entry(f"system.slice/{NAME}", "cpu.weight", GroupId(0, 0), 100, (800,), owner)


@pytest.mark.parametrize(
    ("sender", "name", "alone"),
    [
        (SYSTEMD, "org.freedesktop.systemd1.UnitMasked", True),
        (SYSTEMD, "org.freedesktop.DBus.Error.AccessDenied", True),
        (BUS, "org.freedesktop.DBus.Error.ServiceUnknown", False),
        (BUS, "org.freedesktop.DBus.Error.NoReply", False),
    ],
)
def test_what_systemd_refuses_is_about_one_unit_and_what_the_bus_says_about_all(
    bus: ToyBus, drop_in: Path, sender: str, name: str, alone: bool
) -> None:
    bus.error, bus.sender = (name, "It is so."), sender
    with pytest.raises(SystemdError, match=r"^systemd: It is so\.$") as raised:
        UnitRecords(2).update(entry(), 800, None)
    assert isinstance(raised.value, RefusedError) == alone


@pytest.mark.parametrize("state", ["masked", "bad-setting", "error"])
def test_a_unit_that_takes_no_properties_keeps_no_drop_in_of_ours(bus: ToyBus, drop_in: Path, state: str) -> None:
    bus.state, bus.weight, bus.error = state, 800, ("org.freedesktop.systemd1.UnitMasked", "It is masked.")
    drop_in.write_text(DROP_IN.format(800))
    assert UnitRecords(2).update(entry(), 100, frozenset({800})) == set()
    assert not drop_in.parent.exists()


def test_a_unit_whose_file_is_gone_keeps_no_drop_in_of_ours(bus: ToyBus, drop_in: Path) -> None:
    bus.state, bus.weight = "not-found", UNSET
    drop_in.write_text(DROP_IN.format(800))
    with pytest.raises(NoUnitError):
        UnitRecords(2).update(entry(), 100, frozenset({800}))
    assert not drop_in.parent.exists()


def test_a_drop_in_of_somebody_elses_stays(bus: ToyBus, drop_in: Path) -> None:
    bus.state, bus.weight, bus.error = "masked", 800, ("org.freedesktop.systemd1.UnitMasked", "It is masked.")
    drop_in.write_text(DROP_IN.format(500))
    assert UnitRecords(2).update(entry(), 100, frozenset({800})) == set()
    assert drop_in.read_text() == DROP_IN.format(500)


def test_what_cannot_be_put_back_is_said(bus: ToyBus, drop_in: Path) -> None:
    bus.state, bus.weight, bus.error = "masked", 800, ("org.freedesktop.systemd1.UnitMasked", "It is masked.")
    drop_in.write_text(DROP_IN.format(800))
    with pytest.raises(RefusedError, match="It is masked"):
        UnitRecords(2).update(entry(kept=True), 100, frozenset({800}))
    assert drop_in.exists()


def test_a_unit_that_is_loaded_again_is_put_back_by_systemd(bus: ToyBus, drop_in: Path) -> None:
    bus.weight = 800
    drop_in.write_text(DROP_IN.format(800))
    assert UnitRecords(2).update(entry(), 100, frozenset({800})) == set()
    assert bus.weight == UNSET
    assert not drop_in.parent.exists()


def test_one_unit_of_a_name_that_is_masked_is_found(bus: ToyBus) -> None:
    bus.state = "masked"
    assert Systemd().unit(NAME).active
