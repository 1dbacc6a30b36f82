"""Units that own pods' groups: one that systemd refuses, and none where it is away."""

from __future__ import annotations

from toy_bus import BUS, ToyBus

from qioi.kubernetes.units import UnitNames

REFUSED, OTHER = "kubepods.slice/odd.slice", "kubepods.slice/fine.slice"


def test_a_unit_that_systemd_refuses_holds_up_no_other(bus: ToyBus) -> None:
    bus.refused = "odd.slice"
    names = UnitNames()
    assert {group: owner.name for group, owner in names.look([REFUSED, OTHER]).items()} == {OTHER: "fine.slice"}
    assert names.problem == "systemd is not told of shares of odd.slice, and undoes them: systemd: It is so."
    bus.refused = ""
    assert set(names.look([REFUSED, OTHER])) == {REFUSED, OTHER}
    assert names.problem is None


def test_where_systemd_is_away_no_other_unit_is_asked_of(bus: ToyBus) -> None:
    bus.refused, bus.sender = "odd.slice", BUS
    names = UnitNames()
    assert names.look([REFUSED, OTHER]) == {}
    assert names.problem == "systemd is not told of shares, and undoes them: systemd: It is so."
