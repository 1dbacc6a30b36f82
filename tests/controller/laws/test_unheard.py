"""Before the first commit, the components' own work says whether somebody sends; what an idle one does never does."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qioi.controller.laws.unheard import (
    DOUBTS,
    LASTS,
    LONG,
    PAUSE,
    RARELY,
    RUNNABLE,
    SEVERAL,
    SOME,
    TRIAL,
    WAITS,
    WORKS,
    Unheard,
)
from qioi.model import DelayReading, HostLoad

CROWDED = HostLoad(idle=0.0, foreign=1.0)
STARVED = (0.02, 1.8)  # CPUs that it uses, and threads that wait
REFUSED = (0.03, 0.6)  # a peer beside 32 sysbench, whose ledger has no leader: each call fails at once


#: CPUs and threads that wait, of 3 orderers, 4 chaincodes and 4 peers beside 16 sysbench, each of which weighs as much
#: as all of them: without a load in the worst second of fourteen, and in the second second of a burst.
IDLE = [(0.009, 0.05), (0.005, 0.11), (0.004, 0.05), *[(0.001, 0.07)] * 4, *[(0.002, 0.08)] * 4]
BURST = [(0.001, 1.55), (0.002, 1.64), (0.001, 1.57), (0.001, 0.86), (0.0003, 0.99), (0.001, 1.45), (0.0002, 0.87),
         (0.002, 0.97), (0.003, 1.21), (0.003, 1.98), (0.003, 2.08)]  # fmt: skip


def delay(run: float, wait: float, *, name: str = "peer0", interval: float = 1.0) -> DelayReading:
    return DelayReading(name, run * interval, wait * interval, 100, interval)


def watch(
    seconds: float,
    *works: tuple[float, float],
    interval: float = 1.0,
    host: HostLoad | None = CROWDED,
    before: Unheard | None = None,
    since: float = 0.0,
) -> tuple[Unheard, list[float]]:
    """Have components do the same all the time; give when somebody was taken to send."""
    one, presumed = before or Unheard(), []
    for number in range(round(seconds / interval)):
        now = since + (number + 1) * interval
        readings = [delay(*work, name=f"peer{place}", interval=interval) for place, work in enumerate(works)]
        one = one.step(now, readings, host)
        if one.presumed:
            presumed.append(now)
    return one, presumed


@pytest.mark.parametrize("interval", [0.1, 1.0])
def test_a_component_that_works_and_waits_is_believed_after_some_seconds_for_a_trial(interval: float) -> None:
    one, presumed = watch(TRIAL + 60, (0.002, 0.3), STARVED, interval=interval)
    assert LASTS <= presumed[0] <= LASTS + 3
    assert presumed[-1] - presumed[0] == pytest.approx(TRIAL, abs=1.5)
    assert not one.presumed
    _, again = watch(PAUSE + 60, STARVED, before=one, since=TRIAL + 60, interval=interval)
    assert again[0] == pytest.approx(presumed[-1] + PAUSE, abs=LASTS + 4)


@pytest.mark.parametrize(
    "work",
    [
        (0.0, 0.0),
        (0.004, 0.84),  # an orderer that nobody sends to, beside 64 sysbench, in its worst second
        (0.004, 20.0),  # and one fifty of whose threads wake up at once
        (0.05, 0.02),
        (1.0, 0.3),  # it works, and gets nearly all that it wants
    ],
)
def test_what_is_idle_or_hardly_waits_is_not_believed(work: tuple[float, float]) -> None:
    assert watch(120, work, work)[1] == []


def test_waiting_behind_the_ledger_itself_or_on_a_host_with_room_says_nothing() -> None:
    assert watch(60, STARVED, host=HostLoad(0.0, 0.02))[1] == []
    assert watch(60, STARVED, host=HostLoad(1.0, 0.0))[1] == []


def test_a_burst_says_nothing() -> None:
    one = Unheard()
    for second in range(1, 100):
        busy = second % 5 < 2  # housekeeping, beside a crowd
        one = one.step(float(second), [delay(*((0.01, 1.8) if busy else (0.001, 0.1)))], CROWDED)
        assert not one.presumed


@pytest.mark.parametrize("interval", [0.1, 1.0, 5.0])
def test_what_waits_all_the_time_and_works_in_between_is_tried_and_each_time_later(interval: float) -> None:
    one, presumed = watch(4 * PAUSE, REFUSED, interval=interval)
    begins = [now for now, before in zip(presumed, [-TRIAL, *presumed], strict=False) if now - before > TRIAL]
    assert DOUBTS <= begins[0] <= DOUBTS + LONG
    assert begins[1] - begins[0] == pytest.approx(TRIAL + PAUSE + DOUBTS, abs=2 * interval)
    assert begins[2] - begins[1] == pytest.approx(TRIAL + 2 * PAUSE + DOUBTS, abs=2 * interval)
    assert len(begins) == 3
    assert not one.presumed


def test_most_of_a_channel_s_components_at_once_are_believed_at_once() -> None:
    idle, presumed = watch(14, *IDLE)
    assert presumed == []
    _, presumed = watch(TRIAL, *BURST, before=idle, since=14.0)
    assert presumed[0] <= 16


def test_few_components_are_not_most_of_them() -> None:
    waits, sleeps = (0.001, 1.8), (0.001, 0.1)
    assert watch(PAUSE, *[waits] * (SEVERAL - 1))[1] == []
    assert watch(PAUSE, *[waits] * SEVERAL, *[sleeps] * (SEVERAL + 1))[1] == []
    assert watch(3, *[waits] * SEVERAL, *[sleeps] * SEVERAL)[1]


def test_what_came_to_nothing_is_not_believed_again_for_a_while() -> None:
    end = TRIAL + 10
    one, presumed = watch(end, *BURST)
    assert presumed
    assert not one.presumed
    assert watch(PAUSE - 20, *BURST, before=one, since=end)[1] == []


def test_calls_that_come_in_bursts_leave_a_doubt_too() -> None:
    one, since = Unheard(), None
    for number in range(120):  # half a second each: whoever sends is starved as well
        busy = number % 5 < 2
        one = one.step(number / 2, [delay(*((0.017, 0.8) if busy else (0.001, 0.06)), interval=0.5)], CROWDED)
        since = number / 2 if one.presumed and since is None else since
    assert since is not None
    assert DOUBTS < since < DOUBTS + 2 * LONG


def test_doubts_come_to_an_hour_at_most() -> None:
    assert watch(20 * RARELY, REFUSED, interval=10.0)[0].doubts.wait == RARELY


def test_work_that_shows_more_is_believed_after_a_doubt_that_came_to_nothing() -> None:
    end = DOUBTS + LONG + TRIAL
    one, presumed = watch(end, REFUSED)
    assert presumed
    assert not one.presumed
    assert watch(LASTS + 5, STARVED, before=one, since=end)[1]


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ((0.98 * WORKS, 0.5), (1.02 * WORKS, 0.5)),
        ((0.01, 0.98 * SOME - 0.01), (0.01, 1.02 * SOME - 0.01)),
        ((0.5 * (1 - 0.98 * WAITS), 0.5 * 0.98 * WAITS), (0.5 * (1 - 1.02 * WAITS), 0.5 * 1.02 * WAITS)),
    ],
)
def test_the_bounds_of_a_doubt_are_what_they_say(below: tuple[float, float], above: tuple[float, float]) -> None:
    assert watch(PAUSE, above)[1]
    assert not watch(PAUSE, below)[1]


def test_components_may_take_turns_and_a_reading_over_no_time_is_none() -> None:
    one = Unheard()
    for second in range(1, 15):
        busy, idle = ("peer0", "peer1") if second % 2 else ("peer1", "peer0")
        one = one.step(float(second), [delay(*STARVED, name=busy), delay(0.001, 0.1, name=idle)], CROWDED)
    assert one.presumed
    assert Unheard().step(1.0, [delay(*STARVED, interval=0.0)], None) == Unheard()


part = st.floats(0, 1)


@given(st.lists(st.tuples(st.floats(0.05, 3), part, part, part, part), max_size=30))
def test_an_idle_ledger_is_never_taken_to_be_sent_to(periods: list[tuple[float, float, float, float, float]]) -> None:
    """One component that does next to nothing, however many of its threads wait whenever they wake up, and one that is
    without work now and then, however it waits for the rest; whatever their neighbours do.
    """
    one, now = Unheard(), 0.0
    for interval, work, wait, idle, foreign in periods:
        now += interval
        if now >= DOUBTS:  # then the second one is doubted
            break
        readings = [
            delay(0.999 * WORKS * work, 1000 * wait, interval=interval),
            delay(0.999 * RUNNABLE * work * wait, 0.999 * RUNNABLE * work * (1 - wait), name="b", interval=interval),
        ]
        one = one.step(now, readings, HostLoad(idle, foreign * (1 - idle)))
        assert not one.presumed


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(0.05, 20), st.floats(0, 4), st.floats(0, 100)), max_size=20))
@example([(1000, 1.0, *STARVED)])  # three trials
@example([(1000, 1.0, *REFUSED)])  # of doubts
def test_a_trial_is_short_and_rare_whatever_is_seen(phases: list[tuple[int, float, float, float]]) -> None:
    """Each phase is so many periods of which each shows the same: a third trial comes after ten minutes at least."""
    one, now, begins, before = Unheard(), 0.0, [], False
    for interval, run, wait in (phase[1:] for phase in phases for _ in range(phase[0])):
        now += interval
        one = one.step(now, [delay(run, wait, interval=interval)], CROWDED)
        if one.presumed and not before:
            begins.append(now)
        assert not one.presumed or now - begins[-1] < TRIAL
        before = one.presumed
    # A doubt may come before what is sure, or after it.
    assert all(later - earlier >= PAUSE for earlier, later in zip(begins, begins[2:], strict=False))


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ((0.98 * WORKS, 5.0), (1.02 * WORKS, 5.0)),
        ((0.1, 0.98 * RUNNABLE - 0.1), (0.1, 1.02 * RUNNABLE - 0.1)),
        ((1 - 0.98 * WAITS, 0.98 * WAITS), (1 - 1.02 * WAITS, 1.02 * WAITS)),
    ],
)
def test_the_bounds_are_what_they_say(below: tuple[float, float], above: tuple[float, float]) -> None:
    assert watch(LASTS + 10, above)[1]
    assert not watch(LASTS + 10, below)[1]


def test_a_pinned_component_is_judged_by_its_own_cpus() -> None:
    """Foreign work fills its CPUs. On the others run groups at ``cpu.idle`` alone, which are no foreign work."""
    host = HostLoad(0.0, 0.1, pinned={"peer0": CROWDED})
    assert watch(30, STARVED, host=host)[1]
    assert not watch(30, STARVED, host=HostLoad(0.0, 0.1))[1]
    assert not watch(30, STARVED, host=HostLoad(0.0, 1.0, pinned={"peer0": HostLoad(0.0, 0.0)}))[1]
