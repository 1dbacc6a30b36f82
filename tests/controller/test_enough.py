"""What was enough beside neighbours that are still there is taken up again, whoever was started anew."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qioi.controller.deciding import Controller
from qioi.controller.enough import ANY, GONE_AFTER, Enough, Factors
from qioi.controller.findings.finder import Findings
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role

FULL, ROOM = HostLoad(0.0, 0.6), HostLoad(0.3, 0.0)
PEER = Component("peer0", Role.PEER, "g/p", ("red",))
NOTHING = Findings({}, {})


def period(
    now: float, share: int, *, host: HostLoad | None = FULL, age: float | None = 60.0, need: float = 0.01
) -> Period:
    return Period(
        now,
        (PEER, Component("away", Role.PEER, "g/q")),
        {"red": ChannelReading("red", None, age)},
        {"peer0": DelayReading("peer0", 1 - need, need, 10, 1.0)},
        host,
        {"red": Threshold(None, "none")},
        forces={"peer0": InForce(share, 1024, Placement(("g/p",), ""))},
    )


def learn(enough: Enough, seen: Period) -> None:
    """Go through a period in which the red channel has asked for all that is in force."""
    enough.step(seen, lambda name: [("red", seen.forces[name].share)], ())


def test_it_learns_while_the_host_is_full_and_forgets_what_is_back_while_it_has_room() -> None:
    enough = Enough({"removed": {"red": 4.0}})
    learn(enough, period(1.0, 8192, age=0.1))
    assert enough.known == {"removed": {"red": 4.0}, "peer0": {"red": 8.0}}
    learn(enough, period(2.0, 8192, host=None))
    learn(enough, period(3.0, 1024))  # a restart put it back
    learn(enough, period(4.0, 2048, host=ROOM))  # on its way
    assert enough.known == {"peer0": {"red": 8.0}}
    learn(enough, period(5.0, 1024, host=ROOM))
    assert enough.known == {}


def test_a_component_that_is_gone_is_remembered_for_a_restart_and_no_longer() -> None:
    enough = Enough({"removed": {"red": 4.0}})
    learn(enough, period(1.0, 8192, age=0.1))
    learn(enough, period(GONE_AFTER, 8192, age=0.1))
    assert enough.known == {"removed": {"red": 4.0}, "peer0": {"red": 8.0}}
    learn(enough, period(1.0 + GONE_AFTER, 8192, age=0.1))
    assert enough.known == {"peer0": {"red": 8.0}}


@pytest.mark.parametrize(
    ("names", "known"),
    [
        ({}, {"a": 2.0, "b": 4.0}),
        ({"a": "c"}, {"b": 4.0, "c": 2.0}),
        ({"a": "b"}, {"b": 2.0}),  # the group that had the name before is gone
        ({"a": "b", "b": "a"}, {"a": 4.0, "b": 2.0}),
        ({"c": "b"}, {"a": 2.0, "b": 4.0}),  # of that one nothing was known
    ],
)
def test_what_is_known_goes_with_a_name(names: dict[str, str], known: dict[str, float]) -> None:
    enough = Enough({"a": {"red": 2.0}, "b": {"red": 4.0}})
    enough.rename(names)
    assert enough.known == {name: {"red": factor} for name, factor in known.items()}


def test_one_that_had_full_cpus_of_its_own_is_remembered_while_the_host_has_room_elsewhere() -> None:
    enough, pinned = Enough({}), replace(ROOM, pinned={"peer0": FULL})
    learn(enough, period(1.0, 8192, host=pinned, age=0.1))
    learn(enough, period(2.0, 8192, host=None))
    gone = replace(period(3.0, 8192, host=ROOM), components=(), forces={})
    learn(enough, gone)  # it is started anew
    assert enough.known == {"peer0": {"red": 8.0}}
    learn(enough, replace(gone, now=GONE_AFTER + 2.0))
    assert enough.known == {}


def test_one_without_cpus_of_its_own_is_forgotten_where_the_host_has_room() -> None:
    enough = Enough({})
    learn(enough, period(1.0, 8192, host=replace(FULL, pinned={"peer0": FULL}), age=0.1))
    learn(enough, period(2.0, 8192, age=0.1))  # it may run on all CPUs from now on
    learn(enough, replace(period(3.0, 8192, host=ROOM), components=(), forces={}))
    assert enough.known == {}


def test_what_somebody_else_has_set_is_not_known_to_be_enough() -> None:
    enough, seen = Enough({}), period(1.0, 8192, age=0.1)
    foreign = replace(seen.forces["peer0"], foreign=True)
    learn(enough, replace(seen, forces={"peer0": foreign}))
    assert enough.known == {}
    learn(enough, seen)
    learn(enough, replace(seen, forces={"peer0": replace(foreign, share=40_960)}))
    assert enough.known == {"peer0": {"red": 8.0}}


@pytest.mark.parametrize("host", [None, FULL, ROOM])
def test_what_was_enough_is_forgotten_with_the_original_that_it_was_measured_by(host: HostLoad | None) -> None:
    enough, seen = Enough({"peer0": {"red": 4.0}}), period(1.0, 4096, host=host, age=0.1)
    learn(enough, replace(seen, forces={"peer0": InForce(4096, 4096, Placement(("g/p",), ""), taken_up=True)}))
    assert enough.known == {}


def test_what_is_raised_on_trial_is_not_known_to_be_enough() -> None:
    enough = Enough({})
    learn(enough, period(1.0, 8192, age=None))
    assert enough.known == {}


@pytest.mark.parametrize("age", [None, 0.1, 600.0])
def test_a_component_found_at_its_default_is_raised_to_it_and_stays_in_silence(age: float | None) -> None:
    controller = Controller({"red": Policy("red", "adaptive")}, {"peer0": {"red": 8.0}})
    (want,) = controller.decide_all(period(1.0, 1024, host=None, age=age), NOTHING)
    assert want.decision.shares == 1024  # whether there are neighbours is not known yet
    share = 1024
    for second in range(2, 60):
        (want,) = controller.decide_all(period(float(second), share, age=age), NOTHING)
        share = want.decision.shares
        assert share == 8192
    controller.forget("peer0")  # its container was started anew
    (want,) = controller.decide_all(period(60.0, 1024, age=age), NOTHING)
    assert want.decision.shares == 8192
    for second in range(61, 90):
        (want,) = controller.decide_all(period(float(second), share, host=ROOM, age=age), NOTHING)
        share = want.decision.shares
    assert share == 1024


class Loop:
    """The loop of a controller with a peer of a red channel that leaves what is beyond T, and of an idle blue one."""

    def __init__(self, known: dict[str, Factors] | None = None, share: int = 1024, threshold: float = 1000.0) -> None:
        policies = {"red": Policy("red", "adaptive", threshold), "blue": Policy("blue", "adaptive")}
        self.controller = Controller(policies, known)
        self.share, self.threshold, self.now, self.total = share, threshold, 0.0, 0

    def run(self, seconds: int, rate: float, need: float = 0.9, age: float | None = 600.0) -> tuple[int, int]:
        """Go through so many seconds; give what red and blue ask for. Blue has committed ``age`` seconds ago."""
        for _ in range(seconds):
            self.now, self.total = self.now + 1, self.total + round(rate)
            red = ChannelReading("red", rate, 0.1, committed=self.total)
            seen = replace(
                period(self.now, self.share, need=need),
                components=(Component("peer0", Role.PEER, "g/p"),),
                channels={"red": red, "blue": ChannelReading("blue", None, age)},
                owed={"red": Threshold(self.threshold, "configuration"), "blue": Threshold(None, "none")},
            )
            (want,) = self.controller.decide_all(seen, NOTHING)
            self.share = want.decision.shares
        (_, red_asks), (_, blue_asks) = want.decision.asks
        return red_asks, blue_asks


@pytest.mark.parametrize("age", [None, 600.0])
def test_what_one_channel_had_asked_for_is_nothing_to_another_one(age: float | None) -> None:
    loop = Loop()
    assert loop.run(6, 900, age=age) == (16_384, 1024)
    red, blue = loop.run(25, 2000, age=age)
    assert (loop.share, blue) == (red, 1024)
    assert red < 8200


def test_a_share_is_tried_lower_beside_an_idle_channel() -> None:
    loop = Loop()
    loop.run(6, 900)
    assert loop.run(100, 1000, need=0.01) == (round(0.95 * 16_384), 1024)


@pytest.mark.parametrize("share", [1024, 16_384])  # as it was found, and as the daemon before has left it
@pytest.mark.parametrize(("known", "blue"), [({"red": 16.0}, 1024), ({"red": 16.0, "blue": 4.0}, 4096)])
def test_each_channel_takes_up_what_it_had_asked_for(share: int, known: Factors, blue: int) -> None:
    loop = Loop({"peer0": known}, share)
    assert loop.run(1, 900) == (16_384, blue)
    loop.controller.forget("peer0")  # its container was started anew
    loop.share = 1024
    assert loop.run(1, 900) == (16_384, blue)
    assert loop.run(30, 900) == (16_384, blue)


@pytest.mark.parametrize(
    ("known", "served", "share", "begins"),
    [
        ({}, "red", 9000, 9000),
        ({"red": 8.0}, "red", 9000, 9000),  # in force is what counts, and not what was written down a while ago
        ({ANY: 8.0}, "red blue", 9000, 9000),
        ({"red": 3.0, "blue": 12.0}, "red blue", 9000, 2250),
        ({"red": 1.5, "blue": 15.0}, "red blue", 9000, 1024),
        ({"blue": 8.0}, "red blue", 9000, 1024),
        ({"red": 1.3}, "red", 1024, 1024),
        ({"red": 1.5, "blue": 15.0}, "red blue", 1024, 1024),
        ({"blue": 8.0}, "red blue", 500, 500),
        # Blue is served no more, or has another name now: it is none of those who had asked.
        ({"blue": 8.0}, "red", 9000, 9000),
        ({"blue": 8.0}, "red green", 9000, 9000),
        ({"red": 1.5, "blue": 15.0}, "red", 1536, 1536),
        ({"red": 1.5, "blue": 15.0}, "red", 15_360, 1536),  # what is above red's own was blue's
        ({"red": 1.5, "blue": 15.0}, "red green", 15_360, 1536),
        ({"red": 3.0, "blue": 15.0, "green": 12.0}, "red green", 15_360, 3072),
        ({"red": 3.0, "blue": 15.0, "green": 12.0}, "red green", 9000, 2250),
    ],
)
def test_where_a_new_law_begins(known: Factors, served: str, share: int, begins: float) -> None:
    force = InForce(share, 1024, Placement(("g/p",), ""))
    assert Enough({"peer0": known} if known else {}).begin("peer0", "red", served.split(), force) == begins


@pytest.mark.parametrize("anew", [True, False])  # a restart that keeps shares, and a reload
def test_a_channel_with_another_name_goes_on_from_the_share_in_force(anew: bool) -> None:
    one, pay = Component("peer0", Role.PEER, "g/p"), {"pay": Policy("pay", "adaptive")}
    controller = Controller({"red": Policy("red", "adaptive")}, {"peer0": {"red": 8.0}})
    seen = replace(period(1.0, 8192), components=(one,))
    assert controller.decide_all(seen, NOTHING)[0].decision.shares == 8192
    if anew:
        controller = Controller(pay, controller.known)
    controller.adopt(pay)
    seen = replace(seen, now=2.0, channels={}, owed={"pay": Threshold(None, "none")})
    assert controller.decide_all(seen, NOTHING)[0].decision.shares == 8192


@pytest.mark.parametrize(("share", "most"), [(1024, 8192), (16_384, 16_384)])
def test_what_an_earlier_file_knows_of_a_component_is_all_its_channels(share: int, most: int) -> None:
    loop = Loop({"peer0": {ANY: 8.0}}, share)
    assert loop.run(1, 1000, need=0.01) == (most, most)
    loop.run(20, 1000, need=0.01)
    assert loop.controller.known == {"peer0": {"red": most / 1024, "blue": most / 1024}}


def test_what_is_taken_up_is_tried_lower_after_a_minute_without_a_raise() -> None:
    controller, shares = Controller({"red": Policy("red", "adaptive")}, {"peer0": {"red": 8.0}}), [1024]
    for second in range(63):
        (want,) = controller.decide_all(period(float(second), shares[-1], age=0.1), NOTHING)
        shares.append(want.decision.shares)
    assert shares[1:61] == [8192] * 60
    assert shares[61:] == [7782] * 3


def test_not_where_no_share_helps_and_not_for_algorithm_1() -> None:
    controller = Controller({"red": Policy("red", "adaptive")}, {"peer0": {"red": 8.0}})
    limited = replace(NOTHING, limits={"peer0": Limit(Reason.DISK, "it waits for its disk")})
    assert controller.decide_all(period(1.0, 1024), limited)[0].decision.shares == 1024
    literal = Controller({"red": Policy("red", "proportional", 100.0)}, {"peer0": {"red": 8.0}})
    assert literal.decide_all(period(1.0, 1024), NOTHING)[0].decision.shares == 1024
