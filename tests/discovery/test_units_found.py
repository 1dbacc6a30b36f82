"""What a component is called, and whose it is, where it is a systemd unit. Real units are in tests/guest."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from waiting import PATIENCE

from qioi.discovery.systemd import Unit
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
