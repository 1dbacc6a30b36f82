"""Shares that were on trial are what they were before, and what is tried is not known to be enough."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_daemon import ToySite, peer
from toy_trial import MOST, REAL_TIME, REST

from qioi.controller.deciding import Controller
from qioi.controller.findings.effect import TRIED
from qioi.controller.findings.finder import Findings
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.room import ROOM_FOR
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.daemon.known_shares import KnownShares
from qioi.model import MAX_SHARES, ChannelReading, Component, DelayReading, HostLoad, Role

FULL, ROOM = HostLoad(0.0, 0.6), HostLoad(0.3, 0.0)
QUARTER, DEFAULT, AGAIN = (Limit(Reason.TRIED, TRIED, most) for most in (2048, 0, MAX_SHARES))
GONE = Limit(Reason.NO_EFFECT, TRIED, 0)


def test_a_whole_trial_teaches_nothing_and_ends_with_the_shares_again(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.tps, site.toy.host = {"red": 50.0}, HostLoad(0.0, 0.95)
    shares, known = [], []
    for _ in range(60):
        site.toy.waits = {"peer0": REAL_TIME.divide([site.weight("docker/p") * REST // 100])[0]}
        site.run(1)
        shares.append(site.weight("docker/p") * REST // 100)
        known.append(KnownShares(tmp_path / "state").load())
    begun = shares.index(MOST // 4)
    ends = shares.index(MOST, begun)
    assert set(shares[begun:ends]) == {MOST // 4, REST}
    assert set(shares[ends : ends + 8]) == {MOST}
    assert shares[-1] == REST
    assert known[begun:] == [{"peer0": {"red": 16.0}}] * (60 - begun)


class Loop:
    """The loop of a controller with a peer of two channels that were found to ask for 8 and 4 times its default."""

    def __init__(self) -> None:
        policies = {name: Policy(name, "adaptive") for name in ("red", "blue")}
        self.controller = Controller(policies, {"peer0": {"red": 8.0, "blue": 4.0}})
        self.share, self.now, self.host = 8192, 0.0, FULL
        self.asks: list[int] = []

    def run(self, seconds: int, limit: Limit | None = None, need: float = 0.01) -> int:
        """Go through so many seconds, beside the limit of a trial; give the share in force after them."""
        for _ in range(seconds):
            self.now += 1.0
            seen = Period(
                self.now,
                (Component("peer0", Role.PEER, "g/p"),),
                {name: ChannelReading(name, 10.0, 0.1) for name in ("red", "blue")},
                {"peer0": DelayReading("peer0", 1 - need, need, 10, 1.0)},
                self.host,
                dict.fromkeys(("red", "blue"), Threshold(None, "none")),
                forces={"peer0": InForce(self.share, 1024, Placement(("g/p",), ""))},
            )
            findings = Findings({}, {}, limits={} if limit is None else {"peer0": limit})
            (want,) = self.controller.decide_all(seen, findings)
            self.share, self.asks = want.decision.shares, [shares for _, shares in want.decision.asks]
        return self.share

    @property
    def known(self) -> dict[str, float]:
        return dict(self.controller.known["peer0"])


def test_a_trial_that_hurts_leaves_no_law_with_a_quarter() -> None:
    loop = Loop()
    loop.run(3)
    assert loop.run(3, QUARTER) == 2048
    loop.run(1)
    assert loop.asks == [8192, 4096]
    assert loop.known == {"red": 8.0, "blue": 4.0}


@pytest.mark.parametrize("known", [True, False])
def test_with_the_shares_again_each_channel_asks_for_what_it_had_asked_for(known: bool) -> None:
    loop = Loop()
    loop.run(3)
    for _ in range(2):
        loop.run(4, QUARTER)
        assert loop.run(8, DEFAULT) == 1024
        if not known:  # as of what was raised for a channel that nothing was heard of
            loop.controller._enough.known.clear()
        loop.run(1, AGAIN)
        assert loop.asks == [8192, 4096]
        loop.run(7, AGAIN)
        assert loop.asks == [8192, 4096]
        assert loop.run(60, GONE) == 1024
    loop.run(1)
    assert loop.asks == [8192, 4096]


def test_who_was_let_go_of_stays_at_its_default_when_the_neighbours_go() -> None:
    loop = Loop()
    loop.run(3)
    loop.run(20, GONE)
    loop.host = ROOM
    assert [loop.run(1) for _ in range(20)] == [1024] * 20
    loop.host = FULL
    assert loop.run(5) == 1024


@pytest.mark.parametrize("limit", [DEFAULT, GONE])
def test_a_moment_of_room_takes_nothing_of_what_was_before_a_trial(limit: Limit) -> None:
    loop = Loop()
    loop.run(3)
    for moment in (1, 2):
        loop.run(8, limit)
        loop.host = ROOM
        assert loop.run(moment) == 1024
        assert loop.known == {"red": 8.0, "blue": 4.0}
        loop.host = FULL
        loop.controller._enough.known.clear()
        assert loop.run(1) == 8192
        assert loop.asks == [8192, 4096]
        loop.run(5)
        assert loop.known == {"red": 8.0, "blue": 4.0}


@pytest.mark.parametrize("limit", [DEFAULT, GONE])
def test_room_that_lasts_ends_what_was_before_a_trial(limit: Limit) -> None:
    loop = Loop()
    loop.run(3)
    loop.run(8, limit)
    loop.host = ROOM
    assert loop.run(int(ROOM_FOR) + 1) == 1024
    assert "peer0" not in loop.controller.known
    loop.host = FULL
    assert loop.run(5) == 1024


def test_one_that_is_started_anew_in_a_trial_begins_anew() -> None:
    loop = Loop()
    loop.run(3)
    loop.run(3, QUARTER)
    loop.controller.forget("peer0")
    loop.controller._enough.known.clear()
    loop.share = 1024
    loop.run(2, DEFAULT)
    assert loop.run(5) == 1024


def test_another_limit_holds_what_is_in_force() -> None:
    loop = Loop()
    loop.run(3)
    loop.run(3, QUARTER)
    assert loop.run(5, Limit(Reason.DISK, "it waits for its disk")) == 2048


def test_a_channel_that_is_gone_at_the_end_of_a_trial_has_no_law() -> None:
    loop = Loop()
    loop.run(3)
    loop.run(3, QUARTER)
    loop.controller.adopt({"blue": Policy("blue", "adaptive")})
    assert loop.run(1) == 4096
    assert loop.asks == [4096]
