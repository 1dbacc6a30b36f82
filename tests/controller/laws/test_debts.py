"""What a channel was kept from doing is owed to its users before what is beyond T is its neighbours'."""

from __future__ import annotations

import math

import pytest
from toy_channel import ToyChannel

SEEDS = range(1, 16)


def test_what_has_piled_up_is_worked_off_first() -> None:
    channel = ToyChannel(offered=400.0)
    channel.room = False
    channel.run(10, 900.0)
    channel.offered = 1400.0
    channel.run(8, 900.0)
    channel.offered = 900.0
    channel.run(20, 900.0)
    assert {factor for at, factor, _ in channel.history if at > 2} == {16.0}


@pytest.mark.parametrize(("starved", "enough"), [(6, 12.0), (12, 12.0), (8, 1e6)])
@pytest.mark.parametrize("stays", [True, False])
def test_an_open_load_at_its_threshold_that_works_off_what_neighbours_have_held_up_is_not_greedy(
    starved: int, enough: float, stays: bool
) -> None:
    """They keep it back, or from all that it does, for some seconds; then its share is enough, or they go."""
    for seed in SEEDS:
        channel = ToyChannel(enough=enough, seed=seed, offered=1200.0, is_open=True, block=100)
        channel.run(10, 1200.0)
        channel.room = False
        channel.run(starved, 1200.0, needs=False)
        assert channel.backlog > 600 * starved
        channel.room, channel.enough = not stays, 12.0
        for _ in range(60):
            channel.run(1, 1200.0)
            assert channel.beyond.factor is None, (seed, channel.now)
        assert channel.backlog < 1200


def test_who_was_sent_less_where_there_was_room_owes_nobody_more() -> None:
    channel = ToyChannel(noise=0.0, offered=500.0, block=100)
    channel.run(60, 1200.0)
    channel.offered = math.inf
    channel.run(9, 1200.0)
    assert channel.beyond.factor == 1.0


def test_a_debt_is_bounded() -> None:
    """Who did half of its T beside neighbours for minutes, and then does twice as much, is bounded soon after."""
    channel = ToyChannel(noise=0.0, offered=500.0, enough=12.0, block=100)
    channel.room = False
    channel.run(300, 1000.0)
    channel.offered = math.inf
    channel.run(30, 1000.0)
    assert channel.beyond.factor is not None
