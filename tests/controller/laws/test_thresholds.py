"""What is owed while loads, sources and containers change."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_daemon import ToySite, peer

from qioi.controller.laws.thresholds import Thresholds
from qioi.controller.policy import Policy
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role


@pytest.mark.parametrize(("auto", "raised"), [(True, True), (False, False)])
def test_a_load_that_has_grown_beside_a_neighbour_is_no_surplus(tmp_path: Path, auto: bool, raised: bool) -> None:
    """What was learned at night is not all that is owed by day; what an operator has given is."""
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {"threshold": "auto" if auto else 50}})
    site.toy.tps, site.toy.waits, site.toy.host = {"red": 50.0}, {"peer0": (0.1, 0.0)}, HostLoad(0.8, 0.0)
    site.run(60)
    assert (site.channel().threshold, site.weight("g/p")) == (50.0, 100)
    site.toy.tps, site.toy.waits, site.toy.host = {"red": 120.0}, {"peer0": (0.3, 0.7)}, HostLoad(0.0, 0.8)
    site.run(5)
    assert (site.weight("g/p") > 100) is raised
    assert site.channel().threshold == 50.0  # it is still what was learned


def test_what_a_log_counts_is_not_owed_of_what_an_endpoint_counts() -> None:
    """A commit line counts invalid transactions too, an endpoint the valid ones alone."""
    thresholds = Thresholds({"red": Policy("red", "adaptive", auto=True)})
    peer0 = (Component("peer0", Role.PEER, "g/p"),)
    delays = {"peer0": DelayReading("peer0", 0.1, 0.0, 10, 1.0)}
    owed = []
    for second, (source, tps) in enumerate([("log", 125.0)] * 30 + [("metrics", 100.0)] * 30 + [("log", 125.0)]):
        readings = {"red": ChannelReading("red", tps, 0.1, source=source)}
        owed.append(thresholds.step(float(second), peer0, readings, delays, HostLoad(0.8, 0.0))["red"].value)
    assert (owed[29], owed[31], owed[59], owed[60]) == (125.0, None, 100.0, 125.0)


def test_an_operators_word_outlives_the_containers_that_it_is_about() -> None:
    """They are made anew, and for a while nobody has the label that their threshold stands on."""
    labelled, unsaid = Policy("red", "adaptive", 200.0), Policy("red", "adaptive")
    thresholds = Thresholds({"red": labelled})
    thresholds.order("red", 300.0)

    def owed() -> float | None:
        return thresholds.step(0.0, (), {}, {}, None)["red"].value

    assert owed() == 300.0
    for policies in ({"red": unsaid}, {}, {"red": labelled}, {"red": labelled, "blue": unsaid}):
        thresholds.adopt(policies)
        if policies:
            assert owed() == 300.0
    thresholds.adopt({"red": Policy("red", "adaptive", 250.0)})  # that is new
    assert owed() == 250.0
    thresholds.adopt({"red": labelled})
    assert owed() == 200.0


def test_it_is_said_on_whose_word_a_threshold_is() -> None:
    policies = {"red": Policy("red", "adaptive", 200.0), "blue": Policy("blue", "adaptive")}
    thresholds = Thresholds(policies)

    def told() -> list[tuple[float | None, str]]:
        found = thresholds.step(0.0, (), {}, {}, None)
        return [(found[name].value, found[name].source) for name in policies]

    assert told() == [(200.0, "configuration"), (None, "none")]
    thresholds.order("red", 300.0)
    thresholds.order("blue", None)
    assert told() == [(300.0, "socket"), (None, "auto")]


def test_what_another_channels_components_wait_for_is_no_reason_not_to_learn() -> None:
    thresholds = Thresholds({"red": Policy("red", "adaptive", auto=True)})
    mine, others = Component("peer0", Role.PEER, "g/p", ("red",)), Component("peer1", Role.PEER, "g/q", ("blue",))
    delays = {"peer0": DelayReading("peer0", 0.1, 0.0, 10, 1.0), "peer1": DelayReading("peer1", 0.1, 2.0, 10, 1.0)}
    readings = {"red": ChannelReading("red", 125.0, 0.1, source="log")}
    for second in range(30):
        owed = thresholds.step(float(second), (mine, others), readings, delays, HostLoad(0.2, 0.6))
    assert owed["red"].value == 125.0


def test_an_order_for_a_channel_that_nobody_has_is_dropped() -> None:
    thresholds = Thresholds({"red": Policy("red", "adaptive")})
    thresholds.order("blue", 5.0)
    assert {name: one.value for name, one in thresholds.step(0.0, (), {}, {}, None).items()} == {"red": None}
