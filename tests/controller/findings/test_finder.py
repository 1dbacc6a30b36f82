"""Whether foreign work disturbs: on the whole host, or on the CPUs that a pinned component may run on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qioi.controller.findings.finder import Finder, is_disturbed
from qioi.controller.findings.limits import Limit, Reason, strictest
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Level, Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, LeaderChange, Role

ROOM, FULL = HostLoad(0.9, 0.05), HostLoad(0.0, 0.6)
LATELY = {"red": ChannelReading("red", 10.0, 0.5)}


@pytest.mark.parametrize(
    ("host", "disturbed"),
    [
        (None, False),
        (ROOM, False),
        (FULL, True),
        (HostLoad(0.9, 0.05, lasting=FULL), True),
        (HostLoad(0.0, 0.6, lasting=ROOM), True),
        (HostLoad(0.9, 0.05, pinned={"peer0": ROOM}), False),
        (HostLoad(0.9, 0.05, pinned={"peer0": FULL}), True),
    ],
)
def test_where_foreign_work_leaves_no_room(host: HostLoad | None, disturbed: bool) -> None:
    assert is_disturbed(Period(1.0, (), LATELY, host=host)) is disturbed
    assert not is_disturbed(Period(1.0, (), {}, host=host))


def test_a_commit_that_is_due_later_is_no_silence() -> None:
    """A channel whose blocks come every 20 s is sent to, though its last commit was 15 s ago."""
    reading = ChannelReading("red", 10.0, 15.0, interval=20.0)
    assert is_disturbed(Period(1.0, (), {"red": reading}, host=FULL))


def test_a_silent_channel_that_is_taken_to_be_sent_to_is_disturbed() -> None:
    """A ledger that is starved into silence is disturbed no less than before."""
    period = Period(1.0, (), {"red": ChannelReading("red", 0.0, 60.0)}, host=FULL)
    assert is_disturbed(period, {"red"})
    assert not is_disturbed(period)
    assert not is_disturbed(period, {"blue"})
    assert not is_disturbed(replace(period, host=ROOM), {"red"})


@pytest.mark.parametrize(("lost", "sent_to"), [(False, {"red"}), (True, {"red", "blue"})])
def test_a_channel_without_a_leader_is_sent_to_though_it_commits_nothing(lost: bool, sent_to: set[str]) -> None:
    orderer = Component("orderer0", Role.ORDERER, "g/o", ("red", "blue"))
    period = Period(
        1.0,
        (orderer,),
        {**LATELY, "blue": ChannelReading("blue", 0.0, 60.0)},
        host=FULL,
        owed={name: Threshold(100.0, "configuration") for name in ("red", "blue")},
        elections=(LeaderChange(1, 2, 1.0, "blue", "orderer0"),) if lost else (),
    )
    finder = Finder(lambda _channel, found: found, lambda _channel: False)
    assert finder.step(period).sent_to == sent_to


def force(share: int, *levels: Level) -> InForce:
    return InForce(share, 1024, Placement(("g/p",), "", levels))


HOLD, DISK = Limit(Reason.QUOTA, "its quota stops it"), Limit(Reason.DISK, "it waits for its disk", 3000)
KEPT, BURNS = Limit(Reason.MINIMUM, "neighbours keep 10 %", 2000), Limit(Reason.BURNS, "burns", 0)


@pytest.mark.parametrize(
    ("share", "findings", "reason", "most", "says"),
    [
        (4096, (KEPT, HOLD), Reason.QUOTA, 2000, "its quota stops it; neighbours keep 10 %"),
        (1500, (KEPT, HOLD), Reason.QUOTA, None, "its quota stops it"),
        (4096, (KEPT, DISK), Reason.DISK, 2000, "it waits for its disk; neighbours keep 10 %"),
        (4096, (HOLD, KEPT), Reason.MINIMUM, 2000, "neighbours keep 10 %"),
        (1500, (HOLD, KEPT), Reason.MINIMUM, 1500, "neighbours keep 10 %; its quota stops it"),
        (4096, (KEPT, HOLD, BURNS), Reason.BURNS, 0, "burns"),
    ],
)
def test_of_several_limits_the_strictest_bounds_and_the_last_names_the_trouble(
    share: int, findings: tuple[Limit, ...], reason: Reason, most: int | None, says: str
) -> None:
    limits = strictest({"peer0": force(share)}, *({"peer0": one} for one in findings))
    assert limits == {"peer0": Limit(reason, says, most)}
    assert strictest({}, *({"peer0": one} for one in findings)) == {"peer0": findings[-1]}


def test_a_component_that_something_else_holds_goes_back_for_neighbours_that_are_short() -> None:
    """What holds a share hid what neighbours keep: the share stayed for ever, and fell at once when that ended."""
    finder = Finder(lambda _channel, found: found, lambda _channel: False, neighbours_keep=0.1)
    levels = Level("kubepods/burstable/pod1", 0.0), Level("kubepods", 1.5)
    delays, share = {"peer0": DelayReading("peer0", 0.5, 0.5, 10, 1.0)}, 16_384
    for second in range(60):
        host = HostLoad(0.0, 0.6 if second < 5 else 0.05)
        found = finder.step(
            Period(float(second), (), delays=delays, host=host, forces={"peer0": force(share, *levels)})
        )
        limit = found.limits["peer0"]
        assert limit.reason is Reason.OUTSIDE
        after = limit.allows(share, 1024)
        assert after >= 0.9 * share
        share = after
    assert share == 1024
