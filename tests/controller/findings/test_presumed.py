"""Which silent channels are taken to be sent to, and what is said of it."""

from __future__ import annotations

import logging

import pytest

from qioi.controller.findings.presumed import Presumed
from qioi.controller.laws.unheard import LASTS, TRIAL
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role

CROWDED = HostLoad(idle=0.0, foreign=1.0)
STARVED = (0.02, 1.8)  # CPUs that it uses, and threads that wait


def delay(run: float, wait: float, *, name: str = "peer0") -> DelayReading:
    return DelayReading(name, run, wait, 100, 1.0)


def silent(*names: str) -> dict[str, ChannelReading]:
    return {name: ChannelReading(name, None, None) for name in names}


def test_of_channels_those_without_a_commit_are_presumed_to_be_sent_to_while_all_of_a_component_are_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    presumed = Presumed(lambda name: name == "paper")
    components = (
        Component("peer0", Role.PEER, "g/p", ("red", "paper")),
        Component("load", Role.CLIENT, "g/load", ("red",)),
        Component("peer1", Role.PEER, "g/q", ("blue", "green")),
    )
    delays = {name: delay(*STARVED, name=name) for name in ("peer0", "load", "peer1")}
    channels = silent("red", "paper", "blue") | {"green": ChannelReading("green", 5.0, 1.0)}

    def step(now: float) -> frozenset[str]:
        return presumed.step(Period(now, components, channels, delays, CROWDED))

    with caplog.at_level(logging.INFO, "qioi"):
        seen = [step(float(second)) for second in range(round(LASTS + TRIAL) + 30)]
    assert set(seen) == {frozenset(), frozenset({"red"})}  # blue may be silent: peer1 works for green
    assert [line.message.partition(": ")[0] for line in caplog.records] == ["channel red", "channel red"]
    channels = {"green": ChannelReading("green", 5.0, 1.0)}
    assert step(1000.0) == frozenset()


def test_a_channel_that_has_committed_and_is_silent_since_is_believed_at_once() -> None:
    presumed = Presumed(lambda _name: False)
    components = (Component("peer0", Role.PEER, "g/p", ("red",)),)

    def step(now: float, age: float, work: tuple[float, float]) -> frozenset[str]:
        channels = {"red": ChannelReading("red", 0.0, age, interval=10.0)}
        return presumed.step(Period(now, components, channels, {"peer0": delay(*work)}, CROWDED))

    assert step(1.0, 15.0, STARVED) == frozenset()  # its blocks come every 10 s
    assert step(2.0, 25.0, (0.004, 0.84)) == frozenset()
    assert step(3.0, 26.0, STARVED) == {"red"}
    assert step(4.0, 0.1, STARVED) == frozenset()
