"""Whatever runs beside them: who is helped by a raise keeps it, and who is not is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_trial import LOOK, MOST, REST, WHOLE, Site, World

from qioi.controller.findings.effect import LOOKS
from qioi.controller.findings.limits import Reason

REAL_TIMES = st.sampled_from([0.0, 0.3, 0.6, 0.8, 0.9, 0.95, 0.98])
DEMANDS = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4).map(tuple)
WORLDS = st.builds(World, REAL_TIMES, st.sampled_from([0, 256, 1024, 4096, 16_384, 65_536, 262_144]), DEMANDS)


@pytest.mark.slow
@settings(max_examples=300)
@given(WORLDS, st.booleans())
def test_who_is_helped_has_less_for_no_longer_than_a_trial(world: World, known: bool) -> None:
    """Whoever runs a third more with the raise, or of its runnable time, is never told that it has no effect."""
    site = Site(world, shares=[] if known else [MOST] * len(world.demands))
    site.run(400)
    for one, helped in enumerate(world.helps(1.33)):
        if helped:
            assert Reason.NO_EFFECT not in {reasons[one] for reasons in site.reasons}
            assert max(site.lows(one)) <= WHOLE
            assert sum(site.lows(one)) <= 4 * WHOLE  # at 0, 60, 180 s, and perhaps once more


@pytest.mark.slow
@settings(max_examples=100)
@given(WORLDS)
def test_who_is_helped_much_is_not_taken_in_by_noise(world: World) -> None:
    """Of a fifth in each second's figures."""
    site = Site(world, noise=0.2)
    site.run(400)
    for one, helped in enumerate(world.helps(2.5)):
        if helped:
            assert Reason.NO_EFFECT not in {reasons[one] for reasons in site.reasons}
            assert max(site.lows(one)) <= WHOLE


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(st.tuples(WORLDS.map(lambda one: replace(one, demands=(1.0,))), st.integers(5, 400)), max_size=6))
def test_who_is_helped_again_after_other_neighbours_waits_for_a_look_at_most(visits: list[tuple[World, int]]) -> None:
    site = Site()
    site.run(60)
    for world, seconds in visits:
        site.world = world
        shares = site.run(seconds)
        if world.helps(1.33)[0]:
            low = shares.index(MOST) if MOST in shares else seconds
            assert low <= LOOKS + LOOK


@settings(max_examples=50)
@given(REAL_TIMES.filter(lambda part: part >= 0.8), st.integers(1, 4))
def test_what_has_no_effect_is_found_and_said(real_time: float, count: int) -> None:
    site = Site(World(real_time, 0, (1.0,) * count))
    site.run(60)
    assert site.reasons[-1] == [Reason.NO_EFFECT] * count
    assert site.shares == [REST] * count
