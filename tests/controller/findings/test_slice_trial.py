"""Slices are kept on evidence only, and finding it does no harm to speak of."""

from __future__ import annotations

import math
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sliced_host import LONG, Host

from qioi.controller.findings.slice_trial import (
    BEGUN,
    CLIP,
    HOLDS,
    IN_FORCE,
    LONGEST,
    LOSING_PAIRS,
    MOST_PAIRS,
    NOT_NEEDED,
    ODDS,
    PHASE,
    STEADY,
    WATCH,
    WATCHED,
    Look,
    Trial,
    winnings,
)


@pytest.mark.parametrize("dt", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(
    ("with_slices", "without", "noise", "kept"),
    [
        (0.5, 1.0, 0.0, True),
        (0.5, 1.0, 0.3, True),
        (1.0, 1.0, 0.0, False),
        (1.0, 1.0, 0.5, False),
        (1.5, 1.0, 0.0, False),
        (0.98, 1.0, 0.0, False),  # a gain that is not worth it
        (0.9, 1.0, 0.0, True),
        (0.0, 0.0, 0.0, False),  # nothing is runnable: nothing to compare
    ],
)
def test_kept_only_where_they_gain(with_slices: float, without: float, noise: float, kept: bool, dt: float) -> None:
    host = Host(with_slices, without, noise=noise, dt=dt)
    on = host.run(LONG if dt <= 1 else 2 * LONG)
    assert host.trial.verdict is kept
    assert host.trial.text.startswith("kept" if kept else "not kept")
    assert any(on) is (without > 0)  # it was tried


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dt", "low", "high"),
    [(1.0, 0.5, 0.5), (1.0, 2.0, 2.0), (1.0, 1.5, 2.0), (1.0, 3.0, 3.0), (0.1, 0.2, 0.5), (0.1, 2.0, 2.0), (0.1, 1, 2)],
)
def test_gaps_between_blocks_are_no_harm(dt: float, low: float, high: float) -> None:
    def kept(gain: float, seconds: float) -> int:
        hosts = [Host(1 - gain, 1.0, seed=seed, dt=dt, blocks=(low, high)) for seed in range(10)]
        for host in hosts:
            host.run(seconds)
        return sum(host.trial.verdict is True for host in hosts)

    assert kept(0.33, 2 * LONG + 5 * WATCH) == 10  # and none was given up
    assert kept(0.0, LONG) <= 1


@pytest.mark.parametrize("kept", [False, True])
def test_counts_that_stand_still_while_commits_are_seen_come_to_an_end(kept: bool) -> None:
    host = Host(0.5, 1.0)
    if kept:
        host.run(LONG)
        assert host.trial.verdict is True
    host.tps = lambda on: 0.0
    on = host.run(WATCHED * (WATCH + 2 * PHASE) if kept else 2 * LONG)
    assert host.trial.verdict is False
    assert kept or sum(on) <= IN_FORCE + 1


def test_a_pair_in_which_something_else_is_counted_is_void() -> None:
    host = Host(1.0, 1.0)
    host.counted = False
    host.run(STEADY + PHASE + 2)
    assert host.trial.first is not None
    host.counted = True
    host.run(1)
    assert (host.trial.first, host.trial.gains, host.trial.voids) == (None, (), 1)


def test_a_pair_in_which_a_component_cannot_be_looked_at_says_nothing() -> None:
    """Without what it runs the phase looked cheap: a first one without slices made these look far too dear."""
    trial, both = Trial(), frozenset({"peer0", "peer1"})
    for now in range(int(STEADY + 3 * PHASE)):
        missing = now == int(STEADY) + 2
        trial = trial.step(
            Look(float(now), True, 0.4 if missing else 1.0, components=both - {"peer1"} if missing else both)
        )
    assert (trial.voids, trial.gains) == (0, (0.0,))


def test_components_that_come_and_go_all_the_time_are_no_verdict_and_have_no_slices_for_long() -> None:
    trial, on = Trial(), 0
    for now in range(3600):
        trial = trial.step(Look(float(now), True, 1.0, components=frozenset({f"cc{now // 10}"})))
        on += trial.on
    assert trial.verdict is None or not trial.verdict
    assert on <= IN_FORCE + 5


def test_counts_of_a_channel_that_comes_add_no_total_and_differences_are_summed() -> None:
    trial, total = Trial(), count(step=1000)
    for now in range(int(STEADY + 2 * PHASE) + 2):
        counts = {"red": 10 * now, "blue": next(total)}
        trial = trial.step(Look(float(now), True, 1.0, counts))
        if trial.first is not None:
            assert trial.first == pytest.approx(1 / 1010)
    assert trial.gains == pytest.approx((0.0,))
    trial = trial.step(Look(now + 1.0, True, 1.0, {**counts, "green": 10**6}))
    assert (trial.phase, trial.voids) == (None, 1)
    trial = trial.step(Look(now + 2.0, True, 1.0, {"red": 0, "blue": 0, "green": 0}))
    trial = trial.step(Look(now + 3.0, True, 1.0, {"red": 9, "blue": 0, "green": 0}))
    trial = trial.step(Look(now + 4.0, True, 1.0, {"red": 8, "blue": 0, "green": 0}))  # one was taken back
    assert (trial.phase, trial.voids) == (None, 2)


@pytest.mark.slow
def test_noise_is_taken_for_a_gain_in_one_of_so_many_trials_at_the_most() -> None:
    kept = 0
    for seed in range(200):
        host = Host(1.0, 1.0, noise=0.4, seed=seed)
        host.run(LONG)
        kept += host.trial.verdict is True
    assert kept <= 200 / ODDS


@given(st.lists(st.floats(-CLIP, CLIP), max_size=MOST_PAIRS))
def test_winnings_stay_positive_and_grow_with_every_gain(gains: list[float]) -> None:
    assert winnings(tuple(gains)) > 0
    assert all(winnings((*gains, less)) <= winnings((*gains, more)) for less, more in pairwise((-CLIP, 0.0, CLIP)))


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(("harm", "mean"), [(1.1, 3 * PHASE), (1.2, 2 * PHASE), (1.5, 3.5), (2.0, 2.5), (10.0, 2.0)])
def test_slices_that_harm_are_soon_out(harm: float, mean: float, noise: float) -> None:
    seconds = []
    for seed in range(20):
        host = Host(harm, 1.0, noise=noise, seed=seed)
        seconds.append(sum(host.run(LONG)))
        assert host.trial.verdict is False  # and holds
    assert sum(seconds) / len(seconds) <= mean
    assert max(seconds) <= MOST_PAIRS / 2 * PHASE


@pytest.mark.slow
def test_in_twelve_hours_slices_that_harm_are_in_force_for_seconds() -> None:
    host = Host(1.3, 1.0, noise=0.1)
    assert 0 < sum(host.run(12 * 3600)) <= 30


def test_harm_that_shows_late_in_a_phase_ends_it_then() -> None:
    host = Host(1.0, 1.0)
    while not host.trial.on:
        host.run(1)
        assert host.now < 86_400
    assert host.run(2) == [True, True]
    host.with_slices = 5.0
    assert host.run(1) == [True]
    assert not host.trial.on
    assert host.trial.text.startswith("not kept: 1 pairs of phases: -22%")


def test_where_shares_do_slices_are_never_tried() -> None:
    host = Host(0.5, 1.0)
    assert not any(host.run(3600, lacking=False))
    assert host.trial.text == NOT_NEEDED
    assert not any(host.run(STEADY - 1))
    host.run(1, lacking=False)  # a moment in which shares do
    assert not any(host.run(STEADY))
    assert any(host.run(2 * PHASE + 2))


def test_a_trial_that_has_begun_goes_on_where_its_slices_help() -> None:
    """What slices bring is no reason to end their trial."""
    host = Host(0.5, 1.0)
    host.run(STEADY + 2)
    assert host.trial.phase is not None
    assert host.trial.text == BEGUN
    host.run(LONG, lacking=False)
    assert host.trial.verdict is True
    assert any(host.run(WATCH, lacking=False))


def test_a_bad_verdict_is_not_looked_into_again_where_shares_do() -> None:
    host = Host(1.5, 1.0)
    host.run(LONG)
    text = host.trial.text
    assert text.startswith("not kept: ")
    assert not any(host.run(LONGEST, lacking=False))
    assert (host.trial.verdict, host.trial.text) == (False, text)


@pytest.mark.parametrize(("gain", "found"), [(0.05, 0), (0.1, 18), (0.2, 20)])
def test_a_gain_of_a_tenth_is_found_in_a_little_noise(gain: float, found: int) -> None:
    kept = 0
    for seed in range(20):
        host = Host(1 - gain, 1.0, noise=0.03, seed=seed)
        host.run(LONG)
        kept += host.trial.verdict is True
    assert kept >= found if found else kept <= 2


def test_slices_that_stop_commits_are_out() -> None:
    host = Host(0.5, 1.0)
    host.tps = lambda on: 0.0 if on else 1000.0
    assert sum(host.run(HOLDS)) <= LOSING_PAIRS * PHASE
    assert host.trial.verdict is False


def test_less_time_for_less_work_is_no_gain() -> None:
    host = Host(0.5, 1.0)
    host.tps = lambda on: 450.0 if on else 1000.0
    host.run(LONG)
    assert host.trial.verdict is False


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 5),
            st.sampled_from([True] * 15 + [False]),
            st.floats(0, 100),
            st.sampled_from([0, 0, 1, 100, 2000]),
            st.sampled_from([False] * 15 + [True]),
            st.sampled_from([True] * 31 + [False]),
        ),
        min_size=100,
        max_size=300,
    )
)
def test_whatever_is_seen_they_are_on_only_while_disturbed_and_in_no_trial_for_long(
    periods: list[tuple[float, bool, float, int, bool, bool]],
) -> None:
    trial, now, committed, on, proven = Trial(), 0.0, 0, 0.0, False
    for pause, active, runnable, done, moved, lacking in periods:
        now, committed = now + pause, committed + done
        if trial.on and trial.verdict is None:
            on += pause
        began = trial.phase is not None
        trial = trial.step(Look(now, active, runnable, {"red": committed}, moved, lacking))
        proven = active and trial.verdict is True and (proven or bool(trial.gains))
        assert active or not trial.on
        assert lacking or began or proven or not trial.on
        assert not (moved and trial.on and trial.verdict is None)
        assert on <= IN_FORCE + 5  # and one period
        assert len(trial.gains) + trial.voids <= MOST_PAIRS
        if trial.verdict is not None:
            assert trial.verdict or not trial.on
            on = 0.0


@pytest.mark.parametrize("rhythm", [PHASE * 2, 9.0, 17.0])
def test_shares_that_move_again_and_again_draw_no_trial_out(rhythm: float) -> None:
    host, on = Host(0.97, 1.0), 0
    while host.trial.verdict is None:
        on += sum(host.run(1, moved=True) + host.run(STEADY + rhythm))
        assert host.now < 7200
    assert on <= IN_FORCE + 1


def test_a_trial_that_is_broken_off_whenever_slices_are_in_force_ends() -> None:
    host, on = Host(0.97, 1.0), 0
    while host.trial.verdict is None:
        on += sum(host.run(1))
        if host.trial.on:
            on += sum(host.run(2) + host.run(1, moved=True))
        assert host.now < 7200
    assert IN_FORCE <= on <= IN_FORCE + 1
    assert host.trial.text == f"not kept: no evidence in {on} s in force"


@pytest.mark.parametrize("every", [8.0, 16.0, 13.0])
def test_neither_a_trend_nor_a_rhythm_is_a_gain(every: float) -> None:
    for shape in (lambda now: math.exp(-now / 100), lambda now: 1.5 + math.sin(2 * math.pi * now / every)):
        host = Host(1.0, 1.0)
        for _ in range(LONG):
            host.with_slices = host.without = shape(host.now)
            host.run(1)
            assert host.trial.verdict is not True


def test_nothing_is_tried_before_shares_have_come_to_rest() -> None:
    host = Host(0.5, 1.0)
    assert not any(host.run(100, moved=True))
    assert not any(host.run(STEADY))
    assert any(host.run(2 * PHASE + 2))


def test_a_pair_in_which_a_share_moves_says_nothing() -> None:
    host = Host(0.5, 1.0)
    host.run(STEADY + PHASE + 3)
    assert host.trial.on
    host.run(1, moved=True)
    assert (host.trial.on, host.trial.gains, host.trial.phase) == (False, (), None)


def test_without_interference_they_are_off_and_nothing_is_learned() -> None:
    host = Host(0.5, 1.0)
    assert not any(host.run(100, active=False))
    assert host.trial.gains == ()
    host.run(STEADY + PHASE + 3)
    assert host.trial.phase is not None
    host.run(1, active=False)
    assert (host.trial.on, host.trial.phase) == (False, None)


def test_a_verdict_holds_and_rejection_ever_longer() -> None:
    host = Host(1.0, 1.0)
    host.run(LONG)
    assert host.trial.verdict is False
    assert host.trial.until <= host.now + HOLDS
    assert not any(host.run(300))
    host.run(20, active=False)  # the neighbour goes and comes again: the verdict stands
    assert not any(host.run(100))
    assert any(host.run(HOLDS))
    assert host.trial.holds == 4 * HOLDS
    for _ in range(3):
        host.run(LONGEST + LONG)
    assert host.trial.holds == LONGEST
