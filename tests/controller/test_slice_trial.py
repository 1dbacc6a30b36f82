"""Slices are kept on evidence only."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.slice_trial import EPOCH, HOLDS, LONGEST, MOST_PAIRS, PAIRS, Trial


def run(trial: Trial, seconds: int, with_slices: float, without: float, *, begin: int = 0, noise: float = 0.0,
        active: bool = True) -> tuple[Trial, list[bool]]:  # fmt: skip
    """Waiting per second of running, with slices and without."""
    chance, on = random.Random(3), []
    for second in range(begin, begin + seconds):
        wait = (with_slices if trial.on else without) * (1 + noise * chance.uniform(-1, 1))
        trial = trial.step(float(second), active, 1.0, wait)
        on.append(trial.on)
    return trial, on


LONG = int(2 * MOST_PAIRS * (EPOCH + 1))


@pytest.mark.parametrize(
    ("with_slices", "without", "noise", "kept"),
    [
        (0.5, 1.0, 0.0, True),
        (0.5, 1.0, 0.3, True),
        (1.0, 1.0, 0.0, False),
        (1.0, 1.0, 0.5, False),
        (1.5, 1.0, 0.0, False),
        (0.98, 1.0, 0.0, False),  # a gain that is not worth it
        (0.0, 0.0, 0.0, False),  # nothing waits
    ],
)
def test_kept_only_where_they_gain(with_slices: float, without: float, noise: float, kept: bool) -> None:
    trial, on = run(Trial(), LONG, with_slices, without, noise=noise)
    assert trial.verdict is kept
    assert trial.text.startswith("kept" if kept else "not kept")
    assert on[-1] is kept
    assert any(on)  # it was tried


def test_before_the_verdict_both_have_half_of_the_time() -> None:
    trial, on = run(Trial(), int(2 * PAIRS * EPOCH), 0.5, 1.0)
    assert 0.4 < sum(on) / len(on) < 0.6
    assert "on trial" in trial.text


def test_a_slow_trend_is_no_gain() -> None:
    trial = Trial()
    for second in range(LONG):
        trial = trial.step(float(second), True, 1.0, max(0.1, 1.0 - second / 400))
        if trial.verdict is not None:
            break
    assert trial.verdict is False


def test_a_verdict_holds_for_a_while_and_rejection_ever_longer() -> None:
    trial, _ = run(Trial(), LONG, 1.0, 1.0)
    assert trial.until <= LONG + HOLDS
    trial, on = run(trial, 300, 1.0, 1.0, begin=LONG)
    assert not any(on)
    later = LONG + int(HOLDS) + 10
    trial, on = run(trial, LONG, 1.0, 1.0, begin=later)
    assert any(on)
    assert trial.holds == 4 * HOLDS
    for _ in range(9):
        later += LONG + int(LONGEST) + 10
        trial, _ = run(trial, LONG, 1.0, 1.0, begin=later)
    assert trial.holds == LONGEST


def test_without_interference_they_are_off_and_nothing_is_learned() -> None:
    trial, on = run(Trial(), 100, 0.5, 1.0, active=False)
    assert not any(on)
    assert trial.gains == ()
    trial, _ = run(Trial(), int(1.5 * EPOCH), 0.5, 1.0)
    assert trial.first is not None
    stopped = trial.step(99.0, False, 0.0, 0.0)
    assert (stopped.on, stopped.first, stopped.begun) == (False, None, None)


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans(), st.floats(0, 3), st.floats(0, 3)), max_size=200))
def test_on_only_while_active(periods: list[tuple[float, bool, float, float]]) -> None:
    trial, now = Trial(), 0.0
    for pause, active, run_time, wait in periods:
        now += pause
        trial = trial.step(now, active, run_time, wait)
        assert active or not trial.on
