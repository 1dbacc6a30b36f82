"""What a few factors show of how A grows with the factor."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.laws.curve import LEAST, MOST, PEAK, USUAL, Shown, fit, usual

CEILING = 16.0


def shown(half: float, *factors: float, noise: float = 0.02, peak: float = 2000.0) -> list[Shown]:
    """A at these factors of a channel that does ``peak`` at any factor, and half of it at ``half``."""
    return [Shown(factor, peak * factor / (factor + half), noise, 0.0) for factor in factors]


@pytest.mark.parametrize("half", [1.0, 1.4, 4.0, 10.0])
def test_two_factors_show_all_of_it(half: float) -> None:
    curve = fit(shown(half, 16.0, 2.0, noise=0.001), CEILING)
    for factor in (2.0, 1.0):
        assert curve.rate(factor) == pytest.approx(2000.0 * factor / (factor + half), rel=0.06)
        assert curve.factor(curve.rate(factor)) == pytest.approx(factor)


@pytest.mark.parametrize("factor", [1.0, 2.0, 16.0])
def test_one_factor_shows_what_is_usual(factor: float) -> None:
    curve = fit(shown(1.4, factor), CEILING)
    assert [curve.rate(one) for one in (1.0, 4.0, 16.0)] == pytest.approx(
        [2000 * one / (one + 1.4) for one in (1.0, 4.0, 16.0)]
    )


def test_no_factor_is_enough_beyond_the_peak() -> None:
    assert fit(shown(1.4, 16.0, 2.0), CEILING).factor(2500.0) == math.inf


@pytest.mark.parametrize(("rates", "half"), [((1000.0, 1300.0), LEAST), ((2000.0, 900.0), MOST)])
def test_noise_makes_no_curve_that_falls_or_has_no_peak(rates: tuple[float, float], half: float) -> None:
    high, low = rates
    curve = fit([Shown(4.0, high, 0.01, 0.0), Shown(2.0, low, 0.01, 0.0)], CEILING)
    assert curve.slope / curve.level == pytest.approx(half)


def test_what_is_done_alone_tells_the_peak_until_more_is_shown() -> None:
    begun = usual(2500.0)
    assert (1 / begun.level, begun.factor(1000.0)) == (pytest.approx(PEAK * 2500), pytest.approx(USUAL))
    near = fit(shown(4.0, 2.0, noise=0.05), CEILING, alone=2500.0)
    assert near.rate(16.0) == pytest.approx(2000.0 * 16 / 20, rel=0.1)
    assert near.doubt(16.0) < fit(shown(4.0, 2.0, noise=0.05), CEILING).doubt(16.0)


def test_doubt_is_less_the_more_was_shown_and_more_the_older_it_is() -> None:
    one, two = shown(1.4, 16.0, 2.0, noise=0.1)
    assert fit([one, two], CEILING).doubt(2.0) < 0.11 < fit([one], CEILING).doubt(2.0)
    old = Shown(one.factor, one.rate, one.noise, -100.0)
    assert fit([old, two], CEILING).doubt(8.0) > fit([one, two], CEILING).doubt(8.0)


def test_a_near_factor_says_more_than_a_far_one() -> None:
    """One that does not fit the shape is off by ever more of A with the distance."""
    near, far, here = Shown(3.0, 1200.0, 0.05, 0.0), Shown(15.0, 1200.0, 0.05, 0.0), Shown(2.0, 1000.0, 0.05, 0.0)
    assert fit([near, here], CEILING).rate(3.0) == pytest.approx(1200.0, rel=0.05)
    assert fit([far, here], CEILING).doubt(15.0) > fit([near, here], CEILING).doubt(3.0)


@given(
    st.lists(
        st.builds(Shown, st.floats(1.0, 16.0), st.floats(1.0, 1e5), st.floats(0.01, 0.3), st.floats(-600.0, 0.0)),
        min_size=1,
        max_size=7,
    )
)
def test_whatever_was_shown_it_grows_to_a_peak_and_is_unsure(points: list[Shown]) -> None:
    curve = fit(points, CEILING)
    assert 0 < curve.rate(1.0) < curve.rate(4.0) < curve.rate(16.0) < 1 / curve.level
    assert 0 < curve.doubt(2.0) < math.inf
    assert curve.factor(curve.rate(4.0)) == pytest.approx(4.0)
