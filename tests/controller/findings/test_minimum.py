"""Neighbours keep their part of the CPUs however much the ledger is owed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace
from toy_daemon import ToySite, peer
from toy_host import ToyHost

from qioi.controller.findings.limits import Limit
from qioi.controller.findings.minimum import Minimum
from qioi.controller.laws.need import FOREIGN
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import MAX_SHARES, DelayReading, HostLoad

HERE = Placement(("g",), "")
DELAYS = {"a": DelayReading("a", 0.5, 0.5, 10, 1.0)}


class Beside:
    """A host where ``a`` has what it may have, up to 8000, and neighbours use what they get."""

    def __init__(self, part: float, share: int = 1024) -> None:
        self.minimum, self.share, self.now = Minimum(part), share, 0.0
        self.limits: dict[str, Limit] = {}

    def run(self, host: HostLoad | float | None, count: int = 20, follows: bool = True) -> dict[str, Limit]:
        """Run for seconds; the host is full where only the neighbours' part of it is given."""
        load = HostLoad(0.0, host) if isinstance(host, float) else host
        for _ in range(count):
            self.now += 1.0
            forces = {"a": InForce(self.share, 1024, HERE), "b": InForce(1024, 1024, HERE)}
            self.limits = self.minimum.step(Period(self.now, (), delays=DELAYS, host=load, forces=forces))
            if follows:
                self.share = min(8000, most(self.limits) or 8000)
        return self.limits


def most(limits: dict[str, Limit]) -> int | None:
    return limits["a"].most if limits else None


@pytest.fixture
def short() -> Beside:
    """Neighbours that had more than their part, and are short of it now."""
    beside = Beside(0.1)
    assert not beside.run(0.6)
    assert set(beside.run(0.05, 10)) == {"a"}
    return beside


def test_raised_shares_go_back_while_neighbours_have_less_and_on_while_they_have_more(short: Beside) -> None:
    low = most(short.run(0.05, 10))
    assert low is not None
    assert low < 0.4 * 8000
    held = most(short.run(0.12, 20))
    assert held is not None
    assert most(short.run(0.12, 5)) == held
    assert held < most(short.run(0.2, 10))  # type: ignore[operator]
    assert not short.run(0.5)


def test_a_share_that_does_not_follow_drops_no_further_than_in_a_few_seconds_when_it_does(short: Beside) -> None:
    """Somebody else holds the share, or a floor that a lost leader has raised: when that ends, it is no cliff."""
    before = short.share
    for _ in range(100):
        allowed = most(short.run(0.05, 1, follows=False))
        assert allowed is not None
        assert allowed >= 0.69 * before
    assert allowed < 0.8 * before


@pytest.mark.parametrize("weight", [2, 3, 7, 50])
def test_a_share_goes_back_to_a_weight_of_one_whatever_the_kernel_rounds(weight: int) -> None:
    minimum = Minimum(0.1)
    for second in range(400):
        forces = {"a": InForce(weight * 1024, 1024, HERE)}
        host = HostLoad(0.0, 0.6 if second == 0 else 0.05)
        limits = minimum.step(Period(float(second), (), delays={"a": replace(DELAYS["a"], interval=0.1)},
                                     host=host, forces=forces))  # fmt: skip
        weight = round((most(limits) or weight * 1024) / 1024)
    assert weight == 1


def test_what_neighbours_never_wanted_is_not_kept_for_them(short: Beside) -> None:
    assert not Beside(0.1).run(0.05, 100)
    assert not Beside(0.0).run(0.6)
    after = short.run(0.05, 600)  # they may be gone: what was found stands
    assert after == short.run(0.05, 50)


@pytest.mark.parametrize(("foreign", "then"), [(0.0, None), (0.03, None), (FOREIGN, 1024), (0.05, 1024)])
def test_neighbours_that_are_met_beside_raised_shares_count_as_wanting_their_part(
    foreign: float, then: int | None
) -> None:
    """As after a restart with ``on_exit: keep``: they can't show what they would use. Tenants are no neighbours."""
    beside = Beside(0.1, 8000)
    beside.run(None, 2)
    assert most(beside.run(foreign, 60)) == then


def test_a_moment_of_foreign_work_makes_no_neighbours_of_tenants() -> None:
    """A service that starts, in the first period after a restart."""
    beside = Beside(0.1, 8000)
    beside.run(0.05, 1)
    for _ in range(60):
        assert not beside.run(0.01, 1)


def test_neighbours_that_were_squeezed_below_notice_are_met_when_they_get_more() -> None:
    """After a restart the laws take them for nobody, and let go of what is raised; then they show."""
    beside = Beside(0.1, 8000)
    assert not beside.run(0.034, 20)
    assert most(beside.run(0.05, 5)) < 8000  # type: ignore[operator]


def test_a_moment_at_the_default_forgets_no_neighbours() -> None:
    """As a trial of shares has it, at a period of a tenth of a second."""
    minimum, delays = Minimum(0.1), {"a": replace(DELAYS["a"], interval=0.1)}
    for number in range(250):
        share, foreign = (8000, 0.6) if number < 50 else (8000, 0.01) if number < 249 else (1024, 0.2)
        period = Period(0.1 * number, (), delays=delays, host=HostLoad(0.0, foreign))
        limits = minimum.step(replace(period, forces={"a": InForce(share, 1024, HERE)}))
    assert limits


def test_neighbours_that_have_left_a_host_that_stays_full_are_forgotten(short: Beside) -> None:
    """Tenants fill it at once. Nobody takes what is given back, so that neighbours are gone once all of it is."""
    beside = short
    beside.run(0.0, 60)
    assert beside.limits == {}
    assert beside.share == 8000
    assert not beside.run(0.0, 400)


def test_neighbours_that_hardly_get_anything_beside_raised_shares_get_it_back(short: Beside) -> None:
    """They are there until all is back."""
    before = most(short.limits)
    assert before is not None
    assert most(short.run(0.01, 5)) < 0.9 * before  # type: ignore[operator]


def test_neighbours_that_get_little_at_what_was_found_are_kept_in_mind(short: Beside) -> None:
    assert most(short.run(0.05, 60)) == 1024
    assert most(short.run(0.05, 200)) == 1024


@pytest.mark.parametrize("seconds", [1.0, 1e6])
def test_what_goes_on_has_a_bound(seconds: float) -> None:
    """It grew for hours, up to an OverflowError that ended the daemon; after a period of days at once."""
    minimum, now = Minimum(0.1), 0.0
    for count, foreign in ((10, 0.5), (20, 0.05), (30_000, 0.2)):
        for _ in range(count if seconds == 1.0 else min(count, 20)):
            now += (each := 1.0 if foreign != 0.2 else seconds)
            forces = {"a": InForce(4000, 1024, HERE)}
            delays = {"a": replace(DELAYS["a"], interval=each)}
            limits = minimum.step(Period(now, (), delays=delays, host=HostLoad(0.0, foreign), forces=forces))
    assert most(limits) == MAX_SHARES


def test_what_a_pinned_component_is_raised_against_is_seen_while_the_other_cpus_have_room() -> None:
    """A neighbour has a sixteenth of the host, on its CPUs alone; then the ledger fills the host."""
    beside = Beside(0.1, share=8000)
    pinned = {"a": HostLoad(0.0, 0.5)}
    assert not beside.run(HostLoad(0.5, 0.06, pinned=pinned))
    assert not beside.run(HostLoad(0.0, 0.06, pinned=pinned), 60)
    assert beside.share == 8000


@pytest.mark.parametrize("moment", [None, HostLoad(0.5, 0.1)])
def test_a_moment_that_tells_nothing_of_the_neighbours_takes_nothing_from_them(
    short: Beside, moment: HostLoad | None
) -> None:
    before = short.limits
    for _ in range(3):
        assert short.run(moment, 2) == before
        before = short.run(0.05, 1)
    assert most(short.run(0.05, 60)) == 1024


def test_on_a_host_with_room_and_for_what_is_gone_nothing_is_limited(short: Beside) -> None:
    room = HostLoad(0.5, 0.1)
    assert short.run(room, 2)
    assert not short.run(room, 1)
    assert not short.run(0.6)
    assert short.run(0.05)
    assert not short.minimum.step(Period(short.now, (), host=None))
    assert short.run(0.05)
    short.share = 1024  # nothing is raised, so nothing is to be kept
    assert not short.run(room, 1)


class Loop:
    """A ledger that wants more than its two CPUs and is owed more than it can ever do, beside sixteen hogs."""

    def __init__(self, folder: Path, keep: float) -> None:
        parts = {"peer0": 1.5, "orderer0": 1.0, "cc0": 0.8}
        owed = {"red": {"threshold": 1000, "ceiling": 262_144}}
        self.site = ToySite(folder, [peer(one, f"g/{one}") for one in parts], channels=owed, neighbours_keep=keep)
        self.host = ToyHost(demand=parts, hogs=16)

    def run(self, seconds: int) -> tuple[float, float]:
        """Give the least that the hogs had in the last minute, and the widest move of a share in it."""
        foreign, weights = [], []
        for _ in range(seconds):
            shares = {name: self.site.weight(f"g/{name}") * 1024 // 100 for name in self.host.demand}
            delays, load, served = self.host.period(shares)
            self.site.toy.host, self.site.toy.tps = load, {"red": 100 * served}
            self.site.toy.waits = {name: (one.run, one.wait) for name, one in delays.items()}
            self.site.run(1)
            foreign.append(load.foreign)
            weights.append(self.site.weight("g/peer0"))
        return min(foreign[-60:]), max(weights[-60:]) / min(weights[-60:])


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.3, 0.5, 0.6, 0.7])
def test_a_threshold_out_of_reach_beside_sixteen_hogs(tmp_path: Path, keep: float) -> None:
    least, moved = Loop(tmp_path, keep).run(150)
    assert least >= 0.95 * keep
    assert (least < 0.1) is (keep == 0.0)
    assert moved <= 1.1


def test_another_part_counts_from_the_next_reload_on(tmp_path: Path) -> None:
    loop = Loop(tmp_path, 0.0)
    assert loop.run(90)[0] < 0.1
    site = loop.site
    site.snapshot = site.daemon.adopt(dataclasses.replace(site.config, neighbours_keep=0.3), site.snapshot)
    assert loop.run(150)[0] > 0.28
