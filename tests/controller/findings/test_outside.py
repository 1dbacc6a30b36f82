"""A neighbour that no pod's share counts against: innocent pods do not pay for it, and it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_daemon import ToySite, peer

from qioi.controller.findings.outside import out_of_reach
from qioi.controller.levels.placement import Level, Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.show.trouble import TroubleKind
from qioi.show.troubles import find

POD = "kubepods/burstable/pod1"


def reasons(*levels: tuple[str, float]) -> list[str]:
    placement = Placement((levels[0][0],) if levels else (), "", tuple(Level(*one) for one in levels))
    period = Period(0.0, (), forces={"peer0": InForce(1024, 1024, placement)})
    return [one.text for one in out_of_reach(period, cpus=2).values()]


@pytest.mark.parametrize(
    ("levels", "where"),
    [
        ([(f"{POD}/c", 0.0), (POD, 0.0), ("kubepods/burstable", 0.0), ("kubepods", 1.5)], "kubepods"),
        ([(f"{POD}/c", 0.0), (POD, 0.0), ("kubepods/burstable", 1.0), ("kubepods", 0.0)], "kubepods/burstable"),
        ([(f"{POD}/c", 0.0), (POD, 1.0), ("kubepods/burstable", 0.0), ("kubepods", 1.0)], None),
        ([(f"{POD}/c", 0.0), (POD, 0.0), ("kubepods/burstable", 0.0), ("kubepods", 0.01)], None),
        ([("docker/p", 0.0), ("docker", 1.5)], None),
        ([], None),
    ],
)
def test_who_meets_foreign_work_where_no_share_counts(levels: list[tuple[str, float]], where: str | None) -> None:
    expected = [f"the neighbour is beside {where}, which the kubelet rewrites"] if where else []
    assert reasons(*levels) == expected


@pytest.mark.parametrize("inside", [True, False])
def test_innocent_pods_do_not_pay_for_a_neighbour_outside(tmp_path: Path, inside: bool) -> None:
    site = ToySite(tmp_path, [peer("peer0", f"{POD}/c")])
    site.group("kubepods/burstable/pod2")
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.2, 0.8)}
    site.toy.used = {"": 2.0, "kubepods": 0.2, "kubepods/burstable": 0.2, POD: 0.2, f"{POD}/c": 0.2}
    if inside:
        site.toy.used |= {"kubepods": 2.0, "kubepods/burstable": 2.0}
    site.run(10)
    assert (site.weight(POD) > 100) is inside
    assert (TroubleKind.OUTSIDE in {one.kind for one in find(site.snapshot)}) is not inside
