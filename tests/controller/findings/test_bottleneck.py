"""What is waited for: named from times alone, of each component, and not raised against where no share helps."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
from deciding import decide
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qioi.controller.deciding import Controller
from qioi.controller.findings.bottleneck import Bottleneck, Kind, Machine, Times
from qioi.controller.findings.channels import anybody_suffers, look_at_all
from qioi.controller.findings.diagnoses import Diagnosed, Diagnoses, tell
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Level, Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role, Stalls, Working

#: All of the busy CPU time is foreign, or none of it.
BESIDE = HostLoad(0.0, 1.0)
ALONE = HostLoad(0.0, 0.0)
IDLE = HostLoad(0.8, 0.0)
PEER = Component("peer0", Role.PEER, "g/peer0", ("red",))


def delay(run: float, wait: float, name: str = "peer0") -> dict[str, DelayReading]:
    return {name: DelayReading(name, run, wait, 10, 1.0)}


def period(
    delays: Mapping[str, DelayReading],
    host: HostLoad | None = BESIDE,
    stalls: Stalls | None = None,
    tps: float | None = 50.0,
    age: float = 0.1,
) -> Period:
    """A period in which every component with a delay is a part of the channel, and T is 100."""
    names = dict.fromkeys(("peer0", *delays))
    components = tuple(replace_name(PEER, name) for name in names)
    reading = {"red": ChannelReading("red", tps, age)}
    return Period(0.0, components, reading, delays, host, {"red": Threshold(100.0, "configuration")},
                  stalls=stalls or Stalls(0.0))  # fmt: skip


def replace_name(one: Component, name: str) -> Component:
    return Component(name, one.role, f"g/{name}", one.channels)


def steady(one: Period, seconds: int = 30, diagnoses: Diagnoses | None = None) -> Diagnosed:
    diagnoses = diagnoses or Diagnoses()
    found = [diagnoses.step(one, look_at_all(one)) for _ in range(seconds)][-1]
    assert found.channels["red"].text
    return found


def diagnose(
    delays: Mapping[str, DelayReading],
    host: HostLoad | None,
    stalls: Stalls,
    tps: float | None = 50.0,
    age: float = 0.1,
) -> Kind:
    return steady(period(delays, host, stalls, tps, age)).channels["red"].kind


QUIET = Stalls(0.0)
SLOW_DISK = Stalls(0.9, {"peer0": 1})


@pytest.mark.parametrize(
    ("delays", "host", "stalls", "kind"),
    [
        ({}, BESIDE, QUIET, Kind.UNKNOWN),
        (delay(0, 0), BESIDE, QUIET, Kind.UNKNOWN),
        (delay(0.2, 0.3), BESIDE, QUIET, Kind.CPU),
        (delay(0.2, 0.3), None, QUIET, Kind.CPU),  # a host that is not known may be full of foreigners
        (delay(0.2, 0.3), ALONE, QUIET, Kind.LEDGER),  # it waits, but for its own
        (delay(0.2, 0.01), HostLoad(0.02, 0.02), QUIET, Kind.LEDGER),  # no CPU is left, and nobody foreign has it
        (delay(1.0, 50.0), HostLoad(0.0, 0.05), QUIET, Kind.LEDGER),  # fifty threads in line for the same moment
        (delay(0.2, 0.0), IDLE, QUIET, Kind.ELSEWHERE),
        (delay(0.2, 0.0), None, QUIET, Kind.ELSEWHERE),
        (delay(0.2, 0.3), BESIDE, SLOW_DISK, Kind.DISK),  # more is blocked than waits
        (delay(0.2, 3.0), BESIDE, SLOW_DISK, Kind.CPU),  # more waits than is blocked
        (delay(0.2, 0.3), BESIDE, Stalls(0.01, {"peer0": 1}), Kind.CPU),  # blocked, but no I/O is waited for
        (delay(0.2, 0.3), BESIDE, Stalls(None, {"peer0": 1}), Kind.DISK),  # a kernel without PSI
        (delay(0.2, 0.3), BESIDE, Stalls(0.9, {"somebody": 1}), Kind.CPU),
        (delay(0.2, 0.3), BESIDE, Stalls(0.0, {}, {"peer0": 0.5}), Kind.QUOTA),
    ],
)
def test_below_its_threshold(
    delays: dict[str, DelayReading], host: HostLoad | None, stalls: Stalls, kind: Kind
) -> None:
    assert diagnose(delays, host, stalls) is kind


@pytest.mark.parametrize(
    ("tps", "age", "stalls", "kind"),
    [
        (100.0, 0.1, QUIET, Kind.NONE),
        (100.0, 0.1, SLOW_DISK, Kind.NONE),  # it has what it is owed
        (100.0, 4.0, SLOW_DISK, Kind.DISK),  # commits stall
        (None, 4.0, SLOW_DISK, Kind.DISK),
        (0.0, 60.0, QUIET, Kind.NONE),  # nobody sends
    ],
)
def test_commits_and_silence(tps: float | None, age: float, stalls: Stalls, kind: Kind) -> None:
    assert diagnose(delay(0.2, 0.0), IDLE, stalls, tps, age) is kind


def test_a_component_that_did_nothing_and_a_reading_of_no_time_count_for_nothing() -> None:
    nothing = {"idle": DelayReading("idle", 0, 0, 0, 1.0), "new": DelayReading("new", 1, 1, 1, 0.0)}
    assert diagnose({**delay(0.2, 0.0), **nothing}, IDLE, QUIET) is Kind.ELSEWHERE


def test_one_slow_flush_is_no_verdict_and_the_end_of_many_takes_a_while() -> None:
    diagnoses = Diagnoses()

    def seconds(count: int, stalls: Stalls) -> Kind:
        return steady(period(delay(0.2, 0.0), IDLE, stalls), count, diagnoses).channels["red"].kind

    seconds(5, QUIET)
    assert seconds(1, SLOW_DISK) is not Kind.DISK
    assert seconds(10, SLOW_DISK) is Kind.DISK
    assert seconds(1, QUIET) is Kind.DISK
    assert seconds(10, QUIET) is Kind.ELSEWHERE


def test_a_quota_that_stops_for_about_as_long_as_counts_is_no_coming_and_going() -> None:
    diagnoses = Diagnoses()

    def stopped(part: float) -> Kind:
        one = period(delay(0.2, 0.0), IDLE, Stalls(0.0, {}, {"peer0": part}))
        return steady(one, 20, diagnoses).channels["red"].kind

    kinds = [stopped(part) for part in (0.15, 0.25, 0.15, 0.05)]
    assert kinds == [Kind.ELSEWHERE, Kind.QUOTA, Kind.QUOTA, Kind.ELSEWHERE]


STARVED = {name: delay(0.2, 0.8, name)[name] for name in ("peer0", "peer1", "cc0")}


@pytest.mark.parametrize(
    ("stalls", "whose", "reason"),
    [
        (Stalls(0.0, {}, {"cc0": 0.5}, {"cc0": "g/cc0"}), "cc0", Reason.QUOTA),
        (Stalls(0.9, {"peer1": 2}), "peer1", Reason.DISK),
    ],
)
def test_one_that_no_share_helps_costs_the_others_nothing(stalls: Stalls, whose: str, reason: Reason) -> None:
    """A throttled chaincode, a peer on a slow disk: the others wait for the CPU, and are raised."""
    found = steady(period(STARVED, BESIDE, stalls))
    assert {name: one.reason for name, one in found.limits.items()} == {whose: reason}
    assert found.waiting == STARVED.keys() - {whose}
    assert found.lacking


def test_whose_quota_or_disk_it_is_is_said() -> None:
    found = steady(period(STARVED, BESIDE, Stalls(0.0, {}, {"cc0": 0.5, "peer1": 0.4}, {"cc0": "g", "peer1": "g"})))
    assert found.channels["red"].text.endswith("of the time (cc0, peer1)")
    assert found.limits["cc0"].text.endswith("of the time (g's)")


def test_a_quota_that_foreign_work_uses_too_is_divided_by_shares() -> None:
    one = period(delay(0.2, 0.8), BESIDE, Stalls(0.0, {}, {"peer0": 0.5}, {"peer0": "pods"}))

    def limits(*levels: Level) -> Mapping[str, Limit]:
        force = InForce(1024, 1024, Placement(("pods/a/peer0",), "", levels))
        return steady(replace(one, forces={"peer0": force})).limits

    assert limits(Level("pods/a/peer0", 0.0), Level("pods/a", None), Level("pods", 2.0))
    assert not limits(Level("pods/a/peer0", 0.0), Level("pods/a", 0.3), Level("pods", 0.0))


def test_a_client_waits_for_whatever_it_likes_and_one_without_channels_serves_all() -> None:
    one = period(STARVED, BESIDE, SLOW_DISK)
    client = Component("peer0", Role.CLIENT, "g/peer0")
    assert not steady(replace(one, components=(client, *one.components[1:]))).limits
    everywhere = Component("peer0", Role.PEER, "g/peer0")
    assert steady(replace(one, components=(everywhere, *one.components[1:]))).limits


def test_channels_that_have_their_components_in_common_are_judged_each_by_what_it_does() -> None:
    one = period(STARVED, ALONE)
    everywhere = tuple(Component(each.name, each.role, each.cgroup) for each in one.components)
    owed = {name: Threshold(100.0, "configuration") for name in ("red", "blue")}
    readings = {"red": ChannelReading("red", 50.0, 0.1), "blue": ChannelReading("blue", 100.0, 0.1)}
    found = steady(replace(one, components=everywhere, owed=owed, channels=readings)).channels
    assert {name: each.kind for name, each in found.items()} == {"red": Kind.LEDGER, "blue": Kind.NONE}


def test_only_a_channel_that_does_less_than_it_should_suffers() -> None:
    owed = {"red": Threshold(100.0, "configuration")}
    assert anybody_suffers(0.0, {"red": ChannelReading("red", 50.0, 0.1)}, owed)
    assert not anybody_suffers(0.0, {"red": ChannelReading("red", 100.0, 0.1)}, owed)
    assert not anybody_suffers(0.0, {}, owed)


NUMBERS = st.lists(st.floats(0, 10), min_size=5, max_size=5)


@given(NUMBERS, NUMBERS)
def test_smoothed_times_lie_between_the_old_and_the_new(old: list[float], new: list[float]) -> None:
    for kind in (Times, Machine):
        names = kind.__struct_fields__
        mixed = kind(*old[: len(names)]).add(kind(*new[: len(names)]), 0.3)  # type: ignore[arg-type]
        for name, low, high in zip(names, old, new, strict=False):
            assert min(low, high) - 1e-9 <= getattr(mixed, name) <= max(low, high) + 1e-9


DISK = {"peer0": Limit(Reason.DISK, "the bottleneck is the disk")}


def shares(
    controller: Controller, limits: dict[str, Limit], seconds: range, share: int = 1024
) -> list[tuple[int, str]]:
    made = []
    for second in seconds:
        reading = {"red": ChannelReading("red", 50.0, 0.1)}
        decision = decide(
            controller, float(second), PEER, share, 1024, reading, delay(0.1, 0.9)["peer0"], BESIDE, limits
        )
        assert decision is not None
        share = decision.shares
        made.append((share, decision.reason))
    return made


def test_adaptive_does_not_raise_against_a_disk() -> None:
    controller = Controller({"red": Policy("red", "adaptive", 100.0)})
    assert set(shares(controller, DISK, range(20))) == {(1024, "the bottleneck is the disk: default share")}
    assert shares(controller, {}, range(20, 23))[-1][0] > 1024


def test_a_limit_above_what_is_asked_for_changes_nothing() -> None:
    wide = {"peer0": Limit(Reason.DISK, "no more", 100_000)}
    controllers = [Controller({"red": Policy("red", "adaptive", 100.0)}) for _ in range(2)]
    assert shares(controllers[0], wide, range(3)) == shares(controllers[1], {}, range(3))


def test_a_raise_that_a_limit_cuts_says_why_it_is_made_and_why_it_is_no_larger() -> None:
    """That it is enough alone would be said as the reason of a raise."""
    limit = {"peer0": Limit(Reason.ENOUGH, "that is enough", 2000)}
    controller = Controller({"red": Policy("red", "adaptive", 100.0)})
    (after,) = shares(controller, limit, range(1))
    why = "waits 90% of its runnable time behind foreign work, 50% below its threshold"
    assert after == (2000, f"{why}: raised, and no further: that is enough")


def test_a_share_that_is_held_and_not_in_force_is_said_to_be_raised() -> None:
    """After a restart of the component, or of the daemon: the law goes on from what was enough."""
    controller = Controller({"red": Policy("red", "adaptive", 100.0)})
    (held, reason) = shares(controller, {}, range(9))[-1]
    assert reason.endswith("but is at its ceiling: share held")
    ((share, reason),) = shares(controller, {}, range(9, 10), 1024)
    assert share == held
    assert reason.endswith("but is at its ceiling: raised to the share that is held")


def test_a_limit_is_the_rule_and_what_it_allows_is_what_was_asked_for() -> None:
    limit = {"peer0": Limit(Reason.ENOUGH, "that is enough", 2000)}
    controller = Controller({"red": Policy("red", "adaptive", 100.0)})
    reading, waits = {"red": ChannelReading("red", 50.0, 0.1)}, delay(0.1, 0.9)["peer0"]
    decision = decide(controller, 1.0, PEER, 2000, 1024, reading, waits, BESIDE, limit)
    assert decision is not None
    assert decision.working == Working("enough", 2000.0, 1024, 16_384)
    assert (decision.shares, decision.reason) == (2000, "that is enough: share held")


def test_a_share_in_force_is_not_let_go_of_because_of_a_disk() -> None:
    """It was raised against neighbours. Letting go of it would bring the waiting back, then the raise, and so on."""
    controller = Controller({"red": Policy("red", "adaptive", 100.0)})
    share = shares(controller, {}, range(1))[-1][0]
    assert 1024 < share < 16_384
    after = shares(controller, DISK, range(1, 60), share)
    assert {one for one, _ in after} == {share}
    assert after[0][1] == "the bottleneck is the disk: share held"


@pytest.mark.parametrize(("most", "after"), [(4096, 4096), (512, 1024)])
def test_a_limit_may_take_a_share_back_but_not_below_where_it_rests(most: int, after: int) -> None:
    controller = Controller({"red": Policy("red", "adaptive", 100.0)})
    share = shares(controller, {}, range(3))[-1][0]
    assert share > 4096
    limited = shares(controller, {"peer0": Limit(Reason.DISK, "no more", most)}, range(3, 6), share)
    assert limited[0][0] == after
    assert limited[0][1] == ("no more: default share" if after == 1024 else "no more: back towards the default")


def test_algorithm_1_is_asked_to_the_letter_all_the_same() -> None:
    controller = Controller({"red": Policy("red", "proportional", 100.0)})
    (share, reason), *_ = shares(controller, DISK, range(1))
    assert share == 3072
    assert "A 50.0 < T 100.0" in reason


def test_a_bottleneck_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    disk, none = Bottleneck(Kind.DISK, "waits for the disk"), Bottleneck(Kind.NONE, "all is well")
    neighbours = Bottleneck(Kind.CPU, "waits for the CPU")
    with caplog.at_level(logging.INFO, "qioi"):
        for before, after in ((none, disk), (disk, disk), (disk, neighbours), (neighbours, none)):
            tell("red", before, after)
    assert [one.message for one in caplog.records] == [
        "channel red: waits for the disk", "channel red: that is over: waits for the CPU"
    ]  # fmt: skip


def test_a_wait_that_ends_in_a_moment_without_foreigners_counts_by_what_they_had_over_a_second() -> None:
    host = HostLoad(0.2, 0.05, lasting=HostLoad(0.0, 0.9))
    assert Times.read(delay(0.1, 2.0)["peer0"], Stalls(0.0), host).foreign == pytest.approx(0.9 * 2.0)
