"""A channel that does more than its T: which are bounded, and what their components then have."""

from __future__ import annotations

import pytest

from qioi.controller.bounding import bound
from qioi.controller.deciding import Controller
from qioi.controller.findings.channels import look_at_all, sent_to
from qioi.controller.findings.finder import Findings
from qioi.controller.laws.law import Effect, Verdict
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import Bounds, ChannelReading, Component, Decision, DelayReading, HostLoad, Role, Working

FULL = HostLoad(0.0, 0.6)
ROOM = HostLoad(0.3, 0.0)
COMPONENTS = (
    Component("peer0", Role.PEER, "g/p", ("red",)),
    Component("orderer", Role.ORDERER, "g/o"),
    Component("gone", Role.PEER, "g/q"),
)


class Loop:
    """The loop of a controller, with a red channel that commits ``rate`` by the shares' factor."""

    def __init__(self, policies: dict[str, Policy], source: str = "configuration") -> None:
        self.controller, self.source = Controller(policies), source
        self.owed: dict[str, float | None] = {name: one.threshold for name, one in policies.items()}
        self.shares = {"peer0": 1024, "orderer": 2048}
        self.found = dict(self.shares)
        self.now, self.total = 0.0, 0
        self.host: HostLoad | None = ROOM
        self.reading = True

    def run(self, seconds: int, rate: float) -> dict[str, Decision]:
        made: dict[str, Decision] = {}
        for _ in range(seconds):
            self.now += 1.0
            self.total += round(rate)
            reading = ChannelReading("red", rate, 0.0, 0, self.total)
            need = 0.1 if self.host is ROOM else 0.9
            period = Period(
                self.now,
                COMPONENTS,
                {"red": reading} if self.reading else {},
                {name: DelayReading(name, 1 - need, need, 10, 1.0) for name in self.shares},
                self.host,
                {name: Threshold(value, self.source) for name, value in self.owed.items()},
                forces={
                    name: InForce(share, self.found[name], Placement((f"g/{name}",), ""))
                    for name, share in self.shares.items()
                },
            )
            findings = Findings({}, {})
            made = {one.decision.component: one.decision for one in self.controller.decide_all(period, findings)}
            self.shares = {name: one.shares for name, one in made.items()}
        return made


class TwoChannels:
    """Red, which is bounded to its T, and blue, which has sent and does so no more; one orderer serves both."""

    def __init__(self, beyond: str = "neighbours") -> None:
        policies = {"red": Policy("red", "adaptive", 500.0, beyond=beyond), "blue": Policy("blue", "adaptive", 1000.0)}
        self.controller, self.owed = Controller(policies), policies
        self.both = Component("both", Role.ORDERER, "g/o", ("red", "blue"))
        self.share, self.now, self.total = 1024, 0.0, {"red": 0, "blue": 0}

    def run(
        self, seconds: int, red: float, blue: float, silence: float = 0.0, presumed: bool = False, floor: float = 1.0
    ) -> Decision:
        floors = {"blue": floor} if floor > 1.0 else {}
        for _ in range(seconds):
            self.now += 1.0
            rates = {"red": red, "blue": blue}
            self.total = {name: self.total[name] + round(rate) for name, rate in rates.items()}
            silence += silence > 0
            ages = {"red": 0.0, "blue": silence}
            period = Period(
                self.now,
                (self.both,),
                {name: ChannelReading(name, rate, ages[name], 0, self.total[name]) for name, rate in rates.items()},
                {"both": DelayReading("both", 0.6, 0.4, 10, 1.0)},
                FULL,
                {name: Threshold(one.threshold, "configuration") for name, one in self.owed.items()},
                forces={"both": InForce(self.share, 1024, Placement(("g/o",), ""))},
            )
            trial = frozenset({"blue"} if presumed else ())
            busy = sent_to(look_at_all(period, trial)) | floors.keys()
            findings = Findings({}, {}, trial, floors=floors, sent_to=busy)
            (want,) = self.controller.decide_all(period, findings)
            self.share = want.decision.shares
        return want.decision


@pytest.mark.parametrize(
    ("presumed", "beyond", "holds"),
    [(False, "neighbours", False), (True, "neighbours", True), (False, "ledger", True)],
)
def test_what_a_channel_holds_to_which_nobody_sends_leaves_anothers_bound_in_force(
    presumed: bool, beyond: str, holds: bool
) -> None:
    """Its law holds the raise for its next load. Through a peer of both the other one did twice its T."""
    loop = TwoChannels(beyond)
    loop.run(30, 800.0, 300.0)
    raised = loop.share
    assert raised > 8000
    decision = loop.run(60, 1400.0, 0.0, silence=20.0, presumed=presumed)
    assert (loop.share == raised) is holds
    assert (decision.channel == "blue") is holds
    assert loop.controller.known["both"]["blue"] == pytest.approx(raised / 1024)  # for its next load
    loop.run(1, 800.0, 300.0)
    assert loop.share == raised  # the next load finds it raised


def test_a_bound_leaves_another_channel_the_floor_of_its_lost_leader() -> None:
    """It commits nothing for want of a leader, not because nobody sends."""
    loop = TwoChannels()
    loop.run(30, 800.0, 300.0)
    loop.run(60, 1400.0, 0.0, silence=20.0)
    assert loop.share < 8000
    loop.run(1, 1400.0, 0.0, silence=80.0, floor=16.0)
    assert loop.share >= 16 * 1024


def policy(beyond: str = "neighbours", threshold: float | None = 1000.0) -> dict[str, Policy]:
    return {"red": Policy("red", "adaptive", threshold, beyond=beyond)}


def test_beside_neighbours_all_have_one_factor_at_once_which_comes_down_to_what_is_enough() -> None:
    loop = Loop(policy())
    loop.run(15, 2000)
    loop.host = FULL
    made = loop.run(1, 1600)
    factor = loop.shares["peer0"] / 1024
    assert made["peer0"].reason == "T is owed beside neighbours: raised"
    assert 2 < factor < 8
    loop.run(12, 1300)
    assert 1 < loop.shares["peer0"] / 1024 < factor
    factor = loop.shares["peer0"] / 1024
    assert loop.shares["orderer"] == pytest.approx(2048 * factor, abs=1)
    made = loop.run(20, 1070)
    assert loop.shares["peer0"] / 1024 == pytest.approx(factor, rel=0.01)
    assert made["peer0"].reason == "what is beyond T is the neighbours': share held"
    assert made["peer0"].working is not None
    assert made["peer0"].working.rule == "beyond T"


def test_what_is_beyond_its_threshold_is_taken_from_one_that_was_raised_before() -> None:
    loop = Loop(policy())
    loop.host = FULL
    loop.run(6, 900)
    assert loop.shares["peer0"] == 16_384
    loop.run(25, 2000)
    assert loop.shares["peer0"] < 8200


def test_a_channel_that_works_off_what_neighbours_have_held_up_keeps_its_shares_and_gives_them_back_alone() -> None:
    loop = Loop(policy())
    loop.host = FULL
    loop.run(11, 300)  # the first second begins the count
    loop.run(14, 1500)
    loop.run(10, 1000)
    assert loop.shares["peer0"] == 16_384
    loop.host = ROOM
    loop.run(40, 1000)
    assert loop.shares["peer0"] == 1024


@pytest.mark.parametrize(
    "loop",
    [
        Loop(policy(beyond="ledger")),
        Loop(policy(), "auto"),
        Loop(policy(threshold=None)),
    ],
)
def test_without_a_number_or_by_choice_what_is_beyond_is_the_ledgers(loop: Loop) -> None:
    loop.run(15, 900)
    loop.host = FULL
    loop.run(5, 900)
    assert loop.shares["peer0"] == 16_384
    loop.run(30, 2000)
    assert loop.shares["peer0"] == 16_384


def test_algorithm_1_is_not_bounded() -> None:
    loop = Loop({"red": Policy("red", "proportional", 1000.0, beyond="neighbours")})
    loop.host = FULL
    loop.run(15, 500)
    assert loop.shares["peer0"] == 3072
    loop.run(30, 2000)
    assert loop.shares["peer0"] == 3072


def test_a_channel_that_is_not_heard_of_or_has_no_component_is_not_bounded() -> None:
    loop = Loop(policy() | {"blue": Policy("blue", "adaptive", 1000.0, beyond="neighbours")})
    loop.run(15, 2000)
    loop.reading = False
    assert "beyond" not in loop.run(1, 500)["peer0"].reason
    loop.reading, loop.shares = True, {}
    assert loop.run(1, 500) == {}


def test_where_the_hosts_load_is_not_known_it_is_taken_for_full() -> None:
    loop = Loop(policy())
    loop.host = None
    loop.run(8, 900)
    loop.run(25, 2000)
    assert loop.shares["peer0"] < 8200


LIMITS = Bounds(1024, 16_384)


def verdict(shares: int, rule: str) -> Verdict:
    return Verdict(shares, "why", Effect.RELEASED, working=Working(rule, shares, 1024, 16_384))


@pytest.mark.parametrize(
    ("asked", "rule", "in_force", "shares", "effect"),
    [
        (9000, "raise", 1024, 2048, Effect.RAISED),
        (9000, "raise", 2048, 2048, Effect.HELD),
        (9000, "raise", 4096, 2048, Effect.LOWERED),
        (1500, "room", 2048, 1500, Effect.RELEASED),
        (1500, "no input", 2048, 1500, Effect.RELEASED),
        (9000, "no input", 9000, 2048, Effect.RELEASED),
    ],
)
def test_what_is_made_of_a_verdict(asked: int, rule: str, in_force: int, shares: int, effect: Effect) -> None:
    after = bound(verdict(asked, rule), 2.0, 1024, LIMITS, in_force)
    assert (after.shares, after.effect) == (shares, effect)


def test_a_verdict_without_its_working_is_bounded_as_well() -> None:
    assert bound(Verdict(9000, "why", Effect.RAISED), 2.0, 1024, LIMITS, 1024).working is None


@pytest.mark.parametrize(
    ("factor", "shares", "effect", "cause"),
    [
        (1.0, 1024, Effect.DEFAULT, "nothing waits"),
        (2.0, 2048, Effect.RAISED, "T is owed beside neighbours"),
    ],
)
def test_that_nothing_waits_at_the_default_ends_where_the_channels_part_is_more(
    factor: float, shares: int, effect: Effect, cause: str
) -> None:
    idle = Verdict(1024, "nothing waits", Effect.DEFAULT, working=Working("room", 1024, 1024, 16_384))
    after = bound(idle, factor, 1024, LIMITS, 1024)
    assert (after.shares, after.effect, after.cause) == (shares, effect, cause)
