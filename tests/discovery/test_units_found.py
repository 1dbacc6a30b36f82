"""What a component is called, and whose it is, where it is a systemd unit. Real units are in tests/guest."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from waiting import PATIENCE, until

from qioi.discovery import unit_records, units
from qioi.discovery.systemd import UNSET, SystemdRefusedError, Unit
from qioi.discovery.units import UnitDiscovery, UnitRule
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Role


class ToySystemd:
    """Answers as systemd does; nothing happens to its units."""

    names: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._end = threading.Event()

    def subscribe(self) -> None: ...

    def units(self, patterns: Iterable[str]) -> list[Unit]:
        return [Unit(name, True, f"/{name}") for name in self.names]

    def get(self, unit: Unit, name: str) -> str:
        assert name == "ControlGroup"
        return f"/system.slice/{unit.name}"

    def wait(self, *rest: object) -> None:
        self._end.wait(10)

    def hang_up(self) -> None:
        self._end.set()

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("unit", "name", "organisation"),
    [
        ("fabric-peer@peer0.org1.example.com.service", "fabric-peer@peer0.org1.example.com", "org1.example.com"),
        ("peer0.org2.service", "peer0.org2", "org2"),
        ("peer0.org2.scope", "peer0.org2.scope", "org2"),
        ("fabric-peer.service", "fabric-peer", ""),
        ("fabric-peer.scope", "fabric-peer.scope", ""),
    ],
)
def test_a_unit_belongs_to_the_organisation_that_its_name_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, name: str, organisation: str
) -> None:
    hierarchy = Hierarchy(2, tmp_path)
    (tmp_path / "system.slice" / unit).mkdir(parents=True)
    (tmp_path / "system.slice" / unit / hierarchy.file).write_text("100\n")
    monkeypatch.setattr(ToySystemd, "names", (unit,))
    monkeypatch.setattr("qioi.discovery.units.Systemd", ToySystemd)
    with closing(UnitDiscovery(hierarchy, [UnitRule(Role.PEER, "*")], owned=False)) as units:
        assert units.wait(PATIENCE)
        (found,) = units.found().components
    assert (found.name, found.organisation) == (name, organisation)


def test_a_pattern_whose_units_an_earlier_rule_takes_is_not_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy = Hierarchy(2, tmp_path)
    (group := tmp_path / "system.slice" / "peer@payments.service").mkdir(parents=True)
    (group / hierarchy.file).write_text("100\n")
    monkeypatch.setattr(ToySystemd, "names", (group.name,))
    monkeypatch.setattr("qioi.discovery.units.Systemd", ToySystemd)
    patterns = ("peer@payments.service", "peer@*.service", "orderer.service")
    with closing(UnitDiscovery(hierarchy, [UnitRule(Role.PEER, one) for one in patterns], owned=False)) as units:
        assert units.wait(PATIENCE)
        assert units.found().problems == {"systemd unit orderer.service": "none is active"}


class Passing(ToySystemd):
    """Has another unit at each look, beside one that stays, in a slice of its own, and then none."""

    looks = 200

    def __init__(self) -> None:
        super().__init__()
        self.looked = 0

    def units(self, patterns: Iterable[str]) -> list[Unit]:
        self.looked += 1
        return [self.unit(name) for name in self.there()] if self.looked < self.looks else []

    def there(self) -> list[str]:
        return [f"peer{self.looked}.service", *(["old.service"] if self.looked < self.looks - 1 else [])]

    def unit(self, name: str) -> Unit:
        return Unit(name, True, f"/{name}")

    def get(self, unit: Unit, name: str) -> str:
        return f"/p{self.looked}.slice/{unit.name}" if name == "ControlGroup" else str(UNSET)

    def wait(self, *rest: object) -> None:
        if self.looked >= self.looks:
            self._end.wait(10)


def test_units_that_come_and_go_are_forgotten_but_for_those_that_systemd_keeps_a_share_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = "peer3.service"
    monkeypatch.setattr(units, "Systemd", Passing)
    monkeypatch.setattr(units, "KEPT", 10)
    monkeypatch.setattr(unit_records, "FOLDERS", (tmp_path / "control",))
    (drop_in,) = unit_records.drop_ins(kept, "CPUWeight")
    drop_in.parent.mkdir(parents=True)
    drop_in.touch()
    hierarchy = Hierarchy(2, tmp_path / "cgroup")
    for number in range(1, Passing.looks):
        for name in (f"peer{number}.service", "old.service"):
            group = hierarchy.folder(f"p{number}.slice/{name}")
            group.mkdir(parents=True)
            (group / hierarchy.file).touch()
    with closing(UnitDiscovery(hierarchy, [UnitRule(Role.PEER, "*")])) as discovery:
        until(lambda: not discovery.found().components and "systemd unit *" in discovery.found().problems)
        remembered = discovery._owners
    assert kept in remembered
    assert len(remembered) <= 11
    assert {f"peer{Passing.looks - 1}.service", "old.service"} <= remembered.keys()


class Refusing(ToySystemd):
    """Answers as SELinux has it: two units are there, and of one, or of its slice, nothing may be known."""

    names = ("peer0.service", "peer1.service")
    refused = ""

    def unit(self, name: str) -> Unit:
        return Unit(name, True, f"/{name}")

    def get(self, unit: Unit, name: str) -> str:
        if unit.name == self.refused:
            raise SystemdRefusedError("systemd: SELinux policy denies access")
        return f"/{unit.name[:5]}.slice/{unit.name}" if name == "ControlGroup" else str(UNSET)


@pytest.mark.parametrize(("refused", "found"), [("peer0.service", {"peer1"}), ("peer0.slice", {"peer0", "peer1"})])
def test_a_unit_that_systemd_tells_nothing_of_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, found: set[str]
) -> None:
    monkeypatch.setattr(units, "Systemd", Refusing)
    monkeypatch.setattr(Refusing, "refused", refused)
    hierarchy = Hierarchy(2, tmp_path)
    for name in ("peer0", "peer1"):
        group = hierarchy.folder(f"{name}.slice/{name}.service")
        group.mkdir(parents=True)
        (group / hierarchy.file).touch()
    with closing(UnitDiscovery(hierarchy, [UnitRule(Role.PEER, "*")])) as discovery:
        until(lambda: discovery.wait(0) or "SELinux" in str(discovery.found().problems))
        assert {one.name for one in discovery.found().components} == found
        assert "SELinux policy denies access" in discovery.found().problems["unit peer0.service"]
