"""Units that own pods' groups: one that systemd refuses, and none where it is away."""

from __future__ import annotations

import pytest
from toy_bus import BUS, ToyBus

from qioi.kubernetes.cluster import View, named
from qioi.kubernetes.units import UnitNames
from qioi.model import Component, Role

REFUSED, OTHER = "kubepods.slice/odd.slice", "kubepods.slice/fine.slice"


def test_a_unit_that_systemd_refuses_holds_up_no_other(bus: ToyBus) -> None:
    bus.refused = "odd.slice"
    names = UnitNames()
    assert {group: owner.name for group, owner in names.look([REFUSED, OTHER]).items()} == {OTHER: "fine.slice"}
    assert names.problem == "systemd is not told of shares of odd.slice, and undoes them: systemd: It is so."
    bus.refused = ""
    assert set(names.look([REFUSED, OTHER])) == {REFUSED, OTHER}
    assert names.problem is None


def test_where_systemd_is_away_no_other_unit_is_asked_of(bus: ToyBus, caplog: pytest.LogCaptureFixture) -> None:
    """So it is in each pod, on purpose: an alert of it would never end."""
    bus.refused, bus.sender = "odd.slice", BUS
    names = UnitNames()
    for _ in range(3):
        assert names.look([REFUSED, OTHER]) == {}
    assert names.problem is None
    away = "reloads: systemd is not told of shares, and undoes them: systemd: It is so."
    assert [one.message for one in caplog.records if one.message.startswith("reloads")] == [away]
    bus.refused = ""
    assert set(names.look([REFUSED, OTHER])) == {REFUSED, OTHER}
    bus.refused = "odd.slice"
    UnitNames().look([REFUSED])
    assert [one.message for one in caplog.records if one.message.startswith("reloads")] == [away, away]


@pytest.mark.parametrize("sender", [None, BUS])
def test_that_reloads_reset_groups_is_known_wherever_systemd_is_not_told(bus: ToyBus, sender: str | None) -> None:
    """It is away in a pod, or refuses: what a reload has put back is raised anew."""
    view = View((Component("peer0", Role.PEER, "kubepods.slice/fine.slice/odd.slice"),))
    bus.refused = "odd.slice"
    if sender is not None:
        bus.sender = sender
    names = UnitNames()
    assert named(view, names).reset
    bus.refused = ""
    after = named(view, names)
    assert not after.reset
    assert {one.owner.name for one in after.components if one.owner} == {"odd.slice"}
