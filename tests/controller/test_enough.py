"""What was enough beside neighbours that are still there is taken up again, whoever was started anew."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qioi.controller.enough import GONE_AFTER, Enough
from qioi.controller.findings.finder import Findings
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.controller.policy import Controller, Policy
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


def test_it_learns_while_the_host_is_full_and_forgets_what_is_back_while_it_has_room() -> None:
    enough = Enough({"removed": 4.0})
    enough.step(period(1.0, 8192, age=0.1))
    assert enough.known == {"removed": 4.0, "peer0": 8.0}
    enough.step(period(2.0, 8192, host=None))
    enough.step(period(3.0, 1024))  # a restart put it back
    enough.step(period(4.0, 2048, host=ROOM))  # on its way
    assert enough.known == {"peer0": 8.0}
    enough.step(period(5.0, 1024, host=ROOM))
    assert enough.known == {}


def test_a_component_that_is_gone_is_remembered_for_a_restart_and_no_longer() -> None:
    enough = Enough({"removed": 4.0})
    enough.step(period(1.0, 8192, age=0.1))
    enough.step(period(GONE_AFTER, 8192, age=0.1))
    assert enough.known == {"removed": 4.0, "peer0": 8.0}
    enough.step(period(1.0 + GONE_AFTER, 8192, age=0.1))
    assert enough.known == {"peer0": 8.0}


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
    enough = Enough({"a": 2.0, "b": 4.0})
    enough.rename(names)
    assert enough.known == known


def test_one_that_had_full_cpus_of_its_own_is_remembered_while_the_host_has_room_elsewhere() -> None:
    enough, pinned = Enough({}), replace(ROOM, pinned={"peer0": FULL})
    enough.step(period(1.0, 8192, host=pinned, age=0.1))
    enough.step(period(2.0, 8192, host=None))
    gone = replace(period(3.0, 8192, host=ROOM), components=(), forces={})
    enough.step(gone)  # it is started anew
    assert enough.known == {"peer0": 8.0}
    enough.step(replace(gone, now=GONE_AFTER + 2.0))
    assert enough.known == {}


def test_one_without_cpus_of_its_own_is_forgotten_where_the_host_has_room() -> None:
    enough = Enough({})
    enough.step(period(1.0, 8192, host=replace(FULL, pinned={"peer0": FULL}), age=0.1))
    enough.step(period(2.0, 8192, age=0.1))  # it may run on all CPUs from now on
    enough.step(replace(period(3.0, 8192, host=ROOM), components=(), forces={}))
    assert enough.known == {}


def test_what_somebody_else_has_set_is_not_known_to_be_enough() -> None:
    enough, seen = Enough({}), period(1.0, 8192, age=0.1)
    foreign = replace(seen.forces["peer0"], foreign=True)
    enough.step(replace(seen, forces={"peer0": foreign}))
    assert enough.known == {}
    enough.step(seen)
    enough.step(replace(seen, forces={"peer0": replace(foreign, share=40_960)}))
    assert enough.known == {"peer0": 8.0}


@pytest.mark.parametrize("host", [None, FULL, ROOM])
def test_what_was_enough_is_forgotten_with_the_original_that_it_was_measured_by(host: HostLoad | None) -> None:
    enough, seen = Enough({"peer0": 4.0}), period(1.0, 4096, host=host, age=0.1)
    enough.step(replace(seen, forces={"peer0": InForce(4096, 4096, Placement(("g/p",), ""), taken_up=True)}))
    assert enough.known == {}


def test_what_is_raised_on_trial_is_not_known_to_be_enough() -> None:
    enough = Enough({})
    enough.step(period(1.0, 8192, age=None))
    assert enough.known == {}


@pytest.mark.parametrize("age", [None, 0.1, 600.0])
def test_a_component_found_at_its_default_is_raised_to_it_and_stays_in_silence(age: float | None) -> None:
    controller = Controller({"red": Policy("red", "adaptive")}, {"peer0": 8.0})
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


def test_what_is_taken_up_is_tried_lower_after_a_minute_without_a_raise() -> None:
    controller, shares = Controller({"red": Policy("red", "adaptive")}, {"peer0": 8.0}), [1024]
    for second in range(63):
        (want,) = controller.decide_all(period(float(second), shares[-1], age=0.1), NOTHING)
        shares.append(want.decision.shares)
    assert shares[1:61] == [8192] * 60
    assert shares[61:] == [7782] * 3


def test_not_where_no_share_helps_and_not_for_algorithm_1() -> None:
    controller = Controller({"red": Policy("red", "adaptive")}, {"peer0": 8.0})
    limited = replace(NOTHING, limits={"peer0": Limit(Reason.DISK, "it waits for its disk")})
    assert controller.decide_all(period(1.0, 1024), limited)[0].decision.shares == 1024
    literal = Controller({"red": Policy("red", "proportional", 100.0)}, {"peer0": 8.0})
    assert literal.decide_all(period(1.0, 1024), NOTHING)[0].decision.shares == 1024
