"""What is waited for: named from times alone, and not raised against where no share helps."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
from deciding import decide
from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.findings.bottleneck import Bottleneck, Diagnosis, Kind, Times
from qioi.controller.findings.diagnoses import tell
from qioi.controller.laws.law import Seen
from qioi.controller.policy import Controller, Policy
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role, Stalls

#: All of the busy CPU time is foreign, or none of it.
BESIDE = HostLoad(0.0, 1.0)
ALONE = HostLoad(0.0, 0.0)
IDLE = HostLoad(0.8, 0.0)


def delay(run: float, wait: float, name: str = "peer0") -> dict[str, DelayReading]:
    return {name: DelayReading(name, run, wait, 10, 1.0)}


def diagnose(
    delays: Mapping[str, DelayReading],
    host: HostLoad | None,
    stalls: Stalls,
    tps: float | None = 50.0,
    age: float = 0.1,
) -> Kind:
    """The verdict once it is steady; T is 100."""
    diagnosis = Diagnosis()
    for second in range(30):
        diagnosis = diagnosis.step(Seen(float(second), tps, 100.0, age, host=host), delays, stalls)
    assert diagnosis.found.text
    return diagnosis.found.kind


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
    diagnosis = Diagnosis()

    def seconds(count: int, stalls: Stalls) -> list[Kind]:
        nonlocal diagnosis
        kinds = []
        for _ in range(count):
            diagnosis = diagnosis.step(Seen(0.0, 50.0, 100.0, 0.1, host=IDLE), delay(0.2, 0.0), stalls)
            kinds.append(diagnosis.found.kind)
        return kinds

    seconds(5, QUIET)
    assert Kind.DISK not in seconds(1, SLOW_DISK)
    assert seconds(10, SLOW_DISK)[-1] is Kind.DISK
    assert seconds(1, QUIET) == [Kind.DISK]
    assert seconds(10, QUIET)[-1] is Kind.ELSEWHERE


@given(st.lists(st.floats(0, 10), min_size=7, max_size=7), st.lists(st.floats(0, 10), min_size=7, max_size=7))
def test_smoothed_times_lie_between_the_old_and_the_new(old: list[float], new: list[float]) -> None:
    mixed = Times(*old).add(Times(*new), 0.3)
    for name, low, high in zip(Times.__struct_fields__, old, new, strict=True):
        assert min(low, high) - 1e-9 <= getattr(mixed, name) <= max(low, high) + 1e-9


PEER = Component("peer0", Role.PEER, "g/peer0", ("red",))


def shares(controller: Controller, hopeless: dict[str, str], seconds: int) -> list[tuple[int, str]]:
    share, made = 1024, []
    for second in range(seconds):
        reading = {"red": ChannelReading("red", 50.0, 0.1)}
        decision = decide(
            controller, float(second), PEER, share, 1024, reading, delay(0.1, 0.9)["peer0"], BESIDE, hopeless
        )
        assert decision is not None
        share = decision.shares
        made.append((share, decision.reason))
    return made


def test_adaptive_does_not_raise_against_a_disk_and_lets_go_of_what_it_had_raised() -> None:
    controller = Controller({"red": Policy("red", "adaptive", 100.0)})
    why = {"red": "the bottleneck is the disk"}
    assert set(shares(controller, why, 20)) == {(1024, "the bottleneck is the disk: default share")}
    raised = shares(Controller({"red": Policy("red", "adaptive", 100.0)}), {}, 3)[-1][0]
    assert raised > 1024
    controller = Controller({"red": Policy("red", "adaptive", 100.0)})
    top = shares(controller, {}, 5)[-1][0]
    after = [share for share, _ in shares(controller, why, 40)]
    assert max(after) <= top
    assert after[-1] == 1024


def test_algorithm_1_is_asked_to_the_letter_all_the_same() -> None:
    controller = Controller({"red": Policy("red", "proportional", 100.0)})
    (share, reason), *_ = shares(controller, {"red": "the bottleneck is the disk"}, 1)
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
