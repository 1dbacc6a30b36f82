"""A dry run, of the daemon or of one policy, writes nothing by any lever, and says what it would do."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from owed_site import OUTSIDE, OWED
from toy_daemon import ToySite, peer
from toy_scheduler import DEFAULT

from qioi.controller.guard.thread_slices import Counts
from qioi.controller.slicing import Slicer


class Wanted:
    """Takes the place of the guard of slices."""

    def __init__(self) -> None:
        self.wanted: dict[str, int] = {}

    def look(self) -> int:
        return DEFAULT

    def apply(self, wanted: dict[str, int]) -> Counts:
        self.wanted = wanted
        return Counts()


def beside_a_dry_run(folder: Path, mode: str) -> tuple[ToySite, Wanted]:
    """Channel red is acted on, blue only shown; each has a peer that waits."""
    guard = Wanted()
    site = ToySite(
        folder,
        [peer("peer0", "g/p"), peer("peer1", "g/q", "blue")],
        channels={"red": {"threshold": 100}, "blue": {"threshold": 100}},
    )
    site.toy.slicer = Slicer(mode, guard)  # type: ignore[arg-type]
    site.show_only("blue")
    site.toy.waits = {"peer0": (0.02, 0.1), "peer1": (0.02, 0.1)}
    return site, guard


def test_a_dry_run_has_no_slices_and_its_commits_are_no_reason_for_any(tmp_path: Path) -> None:
    site, guard = beside_a_dry_run(tmp_path, "required")
    site.toy.tps = {"red": 50.0, "blue": 50.0}
    site.run(2)
    assert guard.wanted == {"g/p": 400_001}
    site.toy.ages = {"red": 60.0}  # nobody sends to it
    site.run(2)
    assert guard.wanted == {}


@pytest.mark.parametrize("red", [50.0, 97.0])
def test_a_dry_run_that_is_short_of_what_it_is_owed_begins_no_trial(red: float, tmp_path: Path) -> None:
    site, guard = beside_a_dry_run(tmp_path, "auto")
    site.toy.tps = {"red": red, "blue": 50.0}
    on = 0
    for _ in range(60):
        site.run(1)
        on += bool(guard.wanted)
    assert bool(on) is (red == 50.0)


def test_a_dry_run_makes_no_neighbour_idle(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {}}, best_effort=["batch"])
    site.group("batch")
    idle = site.hierarchy.mount / "batch/cpu.idle"
    idle.write_text("0")
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    site.show_only("red")
    site.run(3)
    assert idle.read_text() == "0"
    site.show_only()
    site.run(3)
    assert idle.read_text() == "1"


def test_a_dry_run_takes_nothing_of_the_cap(tmp_path: Path) -> None:
    weights = {}
    for wait in (0.0, 0.9):
        parts = [peer("peer0", "g/p"), peer("peer1", "g/q", "blue")]
        (folder := tmp_path / str(wait)).mkdir()
        site = ToySite(folder, parts, channels={"red": {}, "blue": {}}, boost_cap=0.7)
        site.group("g/neighbour", 400)
        site.show_only("blue")
        site.toy.tps, site.toy.waits = {"red": 50.0, "blue": 50.0}, {"peer0": (0.1, 0.9), "peer1": (0.1, wait)}
        site.run(3)
        weights[wait] = site.weight("g/p")
        assert (site.component("peer1").wanted > 1024) is (wait > 0)
        assert site.snapshot.boosts is not None
        assert 0.6 < site.snapshot.boosts.part <= 0.7
    assert weights[0.0] == weights[0.9] > 100


def test_a_dry_run_touches_no_level(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels=OWED, dry_run=True)
    site.toy.tps, site.toy.used = {"red": 25.0}, OUTSIDE
    site.run(2)
    assert (site.weight("docker"), site.weight("docker/p")) == (100, 100)
    assert site.component("peer0").wanted == 4096


def test_a_dry_run_says_once_what_it_would_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels=OWED, dry_run=True)
    with caplog.at_level(logging.INFO, logger="qioi"):
        for tps in (50.0, 49.0, 51.0, 25.0, 99.99, 99.99):
            site.toy.tps = {"red": tps}
            site.run(2)
    assert [one.getMessage() for one in caplog.records] == [
        "peer0: dry run: would set 1024 -> 3072: A 50.0 < T 100.0 tps, 1024 + 1024*4*0.500: raised",
        "peer0: dry run: would set 1024 -> 4096: A 25.0 < T 100.0 tps, 1024 + 1024*4*0.750: raised",
        "peer0: dry run: would set 1024 -> 1024: A 100.0 < T 100.0 tps, 1024 + 1024*4*0.000: raised",
    ]


def test_a_dry_run_says_it_again_of_a_component_that_has_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels=OWED, dry_run=True)
    site.toy.tps = {"red": 50.0}
    group = site.hierarchy.mount / "docker/p"
    away = group.with_name("away")
    with caplog.at_level(logging.INFO, logger="qioi"):
        site.run(2)
        group.rename(away)
        site.run(1)
        away.rename(group)
        site.run(2)
    assert len([one for one in caplog.messages if "dry run: would set 1024 -> 3072" in one]) == 2
