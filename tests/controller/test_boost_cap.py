"""`boost_cap` in the loop: all boosts together stay within it, and who has it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from owed_site import OWED
from toy_daemon import ToySite, peer

from qioi.commands.explain import lines
from qioi.show.explain import explain
from qioi.show.metrics import render


def test_a_cap_bounds_all_boosts_together_by_priority(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p", "red"), peer("peer1", "g/q", "blue")], boost_cap=0.75,
                   channels={"red": {"threshold": 100, "law": "proportional", "priority": 1},
                             "blue": {"threshold": 100, "law": "proportional"}})  # fmt: skip
    site.group("g/neighbour", 200)
    site.group("g/idle", 9000)
    site.toy.tps = {"red": 25.0, "blue": 25.0}
    busy = 0
    for group in ("", "g", "g/p", "g/q", "g/neighbour", "g/idle"):
        (site.hierarchy.mount / group / "cpu.stat").write_text("usage_usec 0\n")
    for _ in range(3):
        busy += 1_000_000
        for group in ("", "g", "g/p", "g/q", "g/neighbour"):
            (site.hierarchy.mount / group / "cpu.stat").write_text(f"usage_usec {busy}\n")
        site.run(1)
    assert site.weight("g/p") == 400
    assert 100 < site.weight("g/q") < 250  # (400 + q) / (400 + q + 200) = 0.75 at 200
    assert site.snapshot.boosts is not None
    assert site.snapshot.boosts.part <= 0.75
    assert "boost_cap 0.75 leaves" in site.component("peer1").reason
    assert "boost_cap" not in site.component("peer0").reason
    assert "at most 75%" in dict(lines(explain(site.snapshot, "peer1", site.hierarchy)))["cap"]
    assert "qioi_boosts_cap_ratio 0.75" in render(site.snapshot).decode()
    site.toy.tps = {"red": 100.0, "blue": 100.0}
    site.guard.restore()


def test_a_group_that_is_somebody_elses_holds_nothing_of_the_cap(tmp_path: Path) -> None:
    """What the law wants for it is not given to it."""
    site = ToySite(tmp_path, [peer("peer0", "g/p", "red"), peer("peer1", "g/q", "red")], boost_cap=0.75, channels=OWED)
    site.group("g/neighbour", 200)
    site.toy.tps = {"red": 25.0}
    site.run(1)
    assert site.weight("g/q") < 400
    (site.hierarchy.mount / "g/p/cpu.weight").write_text("10\n")
    site.run(3)
    assert (site.weight("g/p"), site.weight("g/q")) == (10, 400)  # of 610
    assert site.snapshot.boosts is not None
    assert site.snapshot.boosts.part == pytest.approx(400 / 610)


def test_without_a_raised_share_a_cap_looks_at_nothing(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], boost_cap=0.5, channels=OWED)
    site.toy.tps = {"red": 100.0}
    site.run(1)
    assert site.snapshot.boosts is not None
    assert site.snapshot.boosts.part == 0
