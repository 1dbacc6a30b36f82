"""A component whose group lies in another component's, and what one group is wanted for by two of them."""

from __future__ import annotations

from pathlib import Path

from stat_file import write_stat
from toy_daemon import ToySite, peer

from qioi.model import HostLoad
from qioi.monitor.scheduler.host import HostWatch

OWED = {"red": {"threshold": 100, "law": "proportional"}, "blue": {"threshold": 100, "law": "proportional"}}
#: What runs outside of all groups is met at the outermost one, `unit`.
OUTSIDE = {"": 2.0, "unit": 0.2, "unit/cc": 0.1}


def make(folder: Path) -> ToySite:
    """A peer, and a part of another tenant's ledger in a group below the peer's."""
    site = ToySite(folder, [peer("outer", "unit", "red"), peer("inner", "unit/cc", "blue")], channels=OWED)
    site.toy.used = OUTSIDE
    return site


def test_a_group_that_two_want_something_of_keeps_the_most(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.toy.tps = {"red": 25.0, "blue": 75.0}
    seen = []
    for blue in (75.0, 70.0, 65.0, 60.0):
        site.toy.tps = {"red": 25.0, "blue": blue}
        site.run(1)
        seen.append(site.weight("unit"))
    assert seen == [400, 400, 400, 400]


def test_a_group_that_one_is_done_with_stays_the_others(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.toy.tps = {"red": 25.0, "blue": 75.0}
    site.run(2)
    # From now on the inner one is met at its own group.
    site.toy.used = {"": 4.0, "unit": 3.0, "unit/cc": 0.1}
    site.toy.tps = {"red": 25.0, "blue": 50.0}
    seen = []
    for _ in range(20):
        site.run(1)
        seen.append(site.weight("unit"))
    assert set(seen) == {400}, seen


def test_what_the_inner_one_uses_is_the_outer_ones_too_and_counts_once(tmp_path: Path) -> None:
    site = make(tmp_path)
    file = tmp_path / "stat"
    write_stat(file, 0, 0)
    site.toy.host_watch = HostWatch(file)
    site.restart()
    site.toy.tps, site.toy.waits = {"red": 25.0}, {"outer": (1.0, 0.0), "inner": (0.5, 0.0)}
    write_stat(file, 200, 0)
    assert site.run(1).host == HostLoad(idle=0.0, foreign=0.5)
    # What the inner one did before it was met is known: it is in what the outer one used.
    for total, met, used, foreign in ((400, "inner", 0.5, 0.75), (600, "outer", 0.25, 0.75)):
        site.toy.met, site.toy.waits = (met,), {"outer": (used, 0.0)}
        write_stat(file, total, 0)
        host = site.run(1).host
        assert host is not None
        assert host.foreign == foreign
