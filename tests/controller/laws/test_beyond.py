"""The search for the factor that gives a channel its T and its neighbours the rest, in a closed loop with a toy."""

from __future__ import annotations

import copy
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from toy_channel import ToyChannel

from qioi.controller.laws.beyond import AIM, REMEMBERED, SETTLE, Beyond, Block, State, rate_of
from qioi.controller.laws.curve import Shown
from qioi.model import ChannelReading

SEEDS = range(1, 16)
#: T, and the seconds between blocks, of a channel that is looked at for one period.
OWED, BLOCKS = 800.0, 0.1
#: A neighbour is there, and any factor is allowed.
FULL = State(False, 2.0, 16.0)


def beside(channel: ToyChannel, part: float, seconds: int = 60) -> float:
    """Have neighbours come to a channel that was alone for half a minute; give when they came."""
    channel.run(30, part * channel.alone)
    channel.room, came = False, channel.now
    channel.run(seconds, part * channel.alone)
    return came


@pytest.mark.parametrize("enough", [3.5, 7.0])
@pytest.mark.parametrize("part", [0.4, 0.6, 0.8])
def test_a_channel_that_could_do_more_settles_a_little_above_its_threshold(part: float, enough: float) -> None:
    rates = []
    for seed in SEEDS:
        channel = ToyChannel(enough=enough, seed=seed)
        rate, _ = channel.over(beside(channel, part) + 15)
        rates.append(rate / (part * channel.alone))
    assert 1.0 <= statistics.median(rates) <= 1.15, rates
    assert min(rates) > 0.93, rates
    assert max(rates) < 1.3, rates


#: As measured beside 8 sysbench, beside half as many, and with the peak where the factor can be ten times as large.
SHAPES = [{"half": 1.4, "lag": 1.5}, {"half": 0.7, "lag": 1.5}, {"enough": 3.5}]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", [0.5, 0.6, 0.7])
def test_without_noise_it_has_its_threshold_soon_and_then_goes_down_to_it(part: float, shape: dict[str, float]) -> None:
    channel = ToyChannel(noise=0.0, block=50, **shape)  # type: ignore[arg-type]
    came = beside(channel, part)
    rates = [rate / (part * channel.alone) for at, _, rate in channel.history if at > came + 3]
    assert min(rates) >= 0.9
    assert max(rates[7:]) <= 1.35
    rate, moved = channel.over(came + 40)
    assert 1.0 <= rate / (part * channel.alone) <= 1.16
    assert moved <= 1.1


@pytest.mark.parametrize("part", [0.4, 0.5, 0.6])
def test_beside_what_was_measured_it_is_near_its_threshold_after_ten_seconds_whatever_the_noise(part: float) -> None:
    rates, moves = [], []
    for seed in SEEDS:
        channel = ToyChannel(half=1.4, lag=1.5, noise=0.12, block=100, seed=seed)
        rate, moved = channel.over(beside(channel, part, 22) + 10)
        rates.append(rate / (part * channel.alone))
        moves.append(moved)
    assert 1.0 <= statistics.median(rates) <= 1.15, rates
    assert min(rates) > 0.9, rates
    assert max(rates) < 1.3, rates
    assert statistics.median(moves) < 1.6, moves


@pytest.mark.parametrize("part", [0.4, 0.5, 0.6])
def test_where_the_load_fills_the_host_before_neighbours_come_it_is_near_its_threshold_as_soon(part: float) -> None:
    """Room is never seen: that neighbours have come shows in a raise only."""
    rates = []
    for seed in SEEDS:
        channel = ToyChannel(half=1.4, lag=1.5, noise=0.12, block=100, seed=seed, full=True)
        channel.run(10, part * channel.alone)
        channel.room, came = False, channel.now
        channel.run(22, part * channel.alone)
        rate, _ = channel.over(came + 10)
        rates.append(rate / (part * channel.alone))
    assert 1.0 <= statistics.median(rates) <= 1.15, rates
    assert min(rates) > 0.9, rates
    assert max(rates) < 1.3, rates


def test_shares_that_were_raised_before_a_load_came_are_lowered_to_its_threshold_as_soon() -> None:
    rates = []
    for seed in SEEDS:
        channel = ToyChannel(half=1.4, lag=1.5, noise=0.12, block=100, seed=seed)
        channel.room, channel.factor = False, 16.0
        channel.run(22, 800.0)
        rates.append(channel.over(10)[0] / 800)
    assert 1.0 <= statistics.median(rates) <= 1.15, rates
    assert min(rates) > 0.9, rates
    assert max(rates) < 1.3, rates


def test_a_threshold_that_the_default_share_reaches_leaves_the_neighbours_theirs() -> None:
    channel = ToyChannel()
    came = beside(channel, 0.3)
    assert {factor for at, factor, _ in channel.history if at > came + 8} == {1.0}


def test_a_channel_whose_rate_alone_is_not_known_begins_beside_neighbours_at_the_ceiling() -> None:
    begun = Beyond(factor=1.0, owed=OWED, room=True).step(
        1.0, OWED, ChannelReading("red", None, 0.0, 0, 500), State(False, 1.0, 16.0)
    )
    assert begun.factor == 16.0


@pytest.mark.parametrize("most", [0.5, 1.0, 1.01])
def test_where_the_ceiling_is_the_default_nothing_is_looked_for(most: float) -> None:
    channel = ToyChannel(most=most, noise=0.0)
    channel.run(10, 200.0)
    channel.room = False
    channel.run(60, 200.0)
    assert channel.beyond.factor == 1.0


def test_neighbours_who_come_again_find_the_factor_that_was_enough_beside_the_last_ones() -> None:
    channel = ToyChannel(half=1.4, noise=0.0, block=50)
    beside(channel, 0.6)
    found = channel.beyond.factor
    assert found is not None
    channel.room = True
    for share in (4.0, 2.0, 1.0, 1.0, 1.0):
        channel.factor = share
        channel.run(2, 1200.0)
    assert channel.beyond.factor == 1.0
    again = copy.deepcopy(channel)
    again.room = channel.room = False
    again.run(1, 1200.0)
    assert again.beyond.factor == found
    channel.run(1, 600.0)
    assert channel.beyond.factor is not None
    assert channel.beyond.factor < found / 2


@pytest.mark.parametrize("more", [30_000, 1_000, 0, -20_000])
def test_another_source_that_has_counted_otherwise_moves_no_share(more: int) -> None:
    """The endpoint of a peer that waits for a CPU answers late, so that its log counts for a while."""
    channel = ToyChannel(half=1.4, noise=0.0, block=50)
    beside(channel, 0.6)
    same = copy.deepcopy(channel)
    channel.counted_by("metrics", more)
    debt = channel.beyond.debt
    for one in (channel, same):
        one.run(1, 1200.0)
    assert channel.beyond.debt == pytest.approx(debt, abs=1200.0)
    for one in (channel, same):
        one.run(20, 1200.0)
    assert [factor for _, factor, _ in channel.history[-20:]] == pytest.approx(
        [factor for _, factor, _ in same.history[-20:]], rel=0.1
    )


def test_a_load_below_the_threshold_is_never_bounded() -> None:
    channel = ToyChannel(offered=900.0)
    came = beside(channel, 0.5)
    assert {factor for at, factor, _ in channel.history if at > came + 1.5} == {16.0}


def test_a_threshold_out_of_reach_leaves_the_channel_all_that_it_needs() -> None:
    channel = ToyChannel(enough=30.0)
    came = beside(channel, 0.8)
    assert {factor for at, factor, _ in channel.history if at > came + 30} == {16.0}
    assert channel.beyond.factor is None


def test_a_load_that_falls_below_the_threshold_has_what_it_needs_again() -> None:
    channel = ToyChannel()
    beside(channel, 0.6)
    assert channel.beyond.factor is not None
    channel.offered = 700.0
    channel.run(30, 1200.0)
    assert channel.factor == 16.0


def test_alone_a_load_that_falls_below_the_threshold_is_no_longer_bounded() -> None:
    channel = ToyChannel()
    channel.run(30, 1200.0)
    assert channel.beyond.factor == 1.0
    channel.offered = 700.0
    channel.run(30, 1200.0)
    assert channel.beyond.factor is None


def test_a_load_that_comes_down_to_its_threshold_is_let_go_of_where_there_is_room() -> None:
    for seed in SEEDS:
        channel = ToyChannel(seed=seed, block=100)
        channel.run(30, 1200.0)
        assert channel.beyond.factor == 1.0
        channel.offered = 1200.0
        channel.run(30, 1200.0)
        assert channel.beyond.factor is None


@pytest.mark.parametrize("length", [0.2, 1.0, 5.0, 10.0, 60.0])
def test_in_long_periods_a_surplus_and_its_end_are_seen_too(length: float) -> None:
    one, total, now = Beyond(), 0.0, 0.0
    factors: list[float | None] = []
    for rate, state in ((1000.0, State(True, 1.0, 16.0)), (450.0, State(True, 1.0, 16.0)), (1000.0, FULL)):
        for _ in range(max(7, round(20 / length))):
            now, total = now + length, total + rate * length
            one = one.step(now, 500.0, ChannelReading("red", None, 0.1, 0, round(total)), state)
        factors.append(one.factor)
    assert [factor is None for factor in factors] == [False, True, False]


def test_one_that_was_raised_before_its_surplus_was_seen_is_lowered_to_its_threshold() -> None:
    for seed in SEEDS:
        channel = ToyChannel(seed=seed)
        channel.room, channel.factor = False, 16.0
        channel.run(80, 800.0)
        rate, _ = channel.over(60)
        assert 0.95 < rate / 800 < 1.35


def test_more_neighbours_are_noticed_and_another_threshold_is_met() -> None:
    channel = ToyChannel(noise=0.03)
    came = beside(channel, 0.6)
    channel.enough = 12.0
    channel.run(40, 1200.0)
    assert 0.97 < channel.over(came + 85)[0] / 1200 < 1.2
    channel.run(40, 800.0)
    assert 0.97 < channel.over(came + 120)[0] / 800 < 1.2


def test_when_the_neighbours_go_the_factor_follows_the_shares() -> None:
    channel = ToyChannel()
    beside(channel, 0.8)
    assert channel.beyond.factor is not None
    assert channel.beyond.factor > 1
    channel.room = True
    for share in (2.0, 1.5, 1.0):
        channel.factor = share
        channel.run(5, 1600.0)
    assert channel.beyond.factor == 1.0


def test_a_stalled_channel_has_what_it_needs_and_a_ledger_begun_anew_is_no_rate() -> None:
    bounded = Beyond(2.0, 0.0, 800.0, 2.0, False)
    stalled = bounded.step(10.0, 800.0, ChannelReading("red", None, 4.0, 0, 500), State(False, 2.0, 16.0))
    assert stalled.factor is None
    one = Beyond()
    for second, total in ((1.0, 90_000), (2.0, 91_000), (3.0, 500), (4.0, 500), (5.0, None)):
        one = one.step(second, 800.0, ChannelReading("red", None, 0.1, 0, total), State(False, 1.0, 16.0))
    assert [block.total for block in one.blocks] == [500]


def test_blocks_of_one_moment_are_no_rate() -> None:
    one = Beyond(2.0, 0.0, 800.0, 2.0, False)
    for total in (500, 1000):
        one = one.step(5.0, 800.0, ChannelReading("red", None, 0.0, 0, total), State(False, 2.0, 16.0))
    assert one.factor == 2.0


def bounded(seconds: float, rate: float, *legs: Shown) -> Beyond:
    """A channel at twice its share, whose last leg has shown that rate for so many seconds, up to now, which is 0."""
    count = round(seconds / BLOCKS)
    blocks = tuple(Block(-BLOCKS * left, round(rate * (seconds - BLOCKS * left))) for left in range(count, -1, -1))
    return Beyond(2.0, -seconds - SETTLE, OWED, 2.0, False, blocks, legs)


def stepped(one: Beyond, owed: float = OWED, state: State = FULL) -> Beyond:
    return one.step(0.0, owed, ChannelReading("red", None, 0.0, 0, one.blocks[-1].total), state)


@pytest.mark.parametrize(("seconds", "begun"), [(2.0, True), (REMEMBERED, True), (REMEMBERED + 0.1, False)])
def test_a_raise_shows_that_neighbours_have_come_to_who_did_more_than_its_threshold_of_late(
    seconds: float, begun: bool
) -> None:
    known = Beyond(None, -20.0, OWED, 1.0, False, (Block(-1.0, 0),), more_at=-seconds, alone=2.5 * OWED)
    after = known.step(0.0, OWED, ChannelReading("red", None, 0.0, 0, 500), FULL)
    assert (after.factor is not None) is begun
    other = known.step(0.0, 1.5 * OWED, ChannelReading("red", None, 0.0, 0, 500), FULL)
    assert other.factor is None
    same = known.step(0.0, OWED, ChannelReading("red", None, 0.0, 0, 500), FULL._replace(in_force=1.0))
    assert same.factor is None


@pytest.mark.parametrize(("ago", "alone"), [(1.0, 3 * OWED), (REMEMBERED + 1, 2 * OWED)])
def test_the_most_that_was_done_of_late_is_what_it_does_alone(ago: float, alone: float) -> None:
    """Beside its first neighbours it does less, and still more than T, before its shares are raised."""
    known = replace(bounded(6, 2 * OWED), factor=None, in_force=1.0, more_at=-ago, alone=3 * OWED)
    after = stepped(known, state=FULL._replace(in_force=1.0))
    assert after.factor is None
    assert after.more_at == 0.0
    assert after.alone == pytest.approx(alone)


@pytest.mark.parametrize(
    ("above", "seconds", "moved"),
    [(0.05, 30, False), (0.15, 2.6, False), (0.15, 10, True), (0.5, 2, False), (0.5, 3, True)],
)
def test_less_is_given_after_some_seconds_only_and_later_the_nearer_it_is(
    above: float, seconds: float, moved: bool
) -> None:
    after = stepped(bounded(seconds, AIM * OWED * math.exp(above)))
    assert after.factor is not None
    assert (after.factor < 2.0) is moved


@pytest.mark.parametrize("seconds", [2, 10])
def test_more_is_given_as_soon_as_it_is_known_to_be_too_little(seconds: float) -> None:
    after = stepped(bounded(seconds, 0.5 * OWED))
    assert after.factor is not None
    assert after.factor > 2.0


def test_who_is_sure_of_the_direction_is_believed_against_what_was_known() -> None:
    """Ten seconds at half of T say that more is needed, whatever earlier legs say together."""
    wrong = Shown(factor=4.0, rate=3000.0, noise=0.01, at=0.0)
    after = stepped(bounded(10, 0.5 * OWED, wrong))
    assert after.factor is not None
    assert after.factor > 2.0
    assert wrong not in after.legs


@pytest.mark.parametrize(
    ("owed", "state", "forgotten"),
    [(OWED, FULL, False), (400.0, FULL, True), (OWED, State(True, 2.0, 16.0), True)],
)
def test_another_threshold_or_neighbours_that_come_or_go_end_a_leg(owed: float, state: State, forgotten: bool) -> None:
    known = Shown(factor=4.0, rate=1.3 * AIM * OWED, noise=0.05, at=0.0)
    after = stepped(bounded(6, AIM * OWED, known), owed, state)
    assert (after.legs, after.since) == (((), 0.0) if forgotten else ((known,), -6 - SETTLE))


def test_a_silence_that_is_longer_than_any_before_counts() -> None:
    blocks = bounded(5, 100.0).blocks
    usual, silent = rate_of(blocks, -10.0, BLOCKS), rate_of(blocks, -10.0, 5.0 + BLOCKS)
    assert usual is not None
    assert silent is not None
    assert (usual.value, silent.value) == (pytest.approx(100.0), pytest.approx(50.0))


SEEN = st.tuples(st.integers(0, 5000), st.floats(0.0, 5.0), st.booleans(), st.floats(0.0, 1.0))


@given(
    st.lists(SEEN, max_size=60), st.sampled_from([0.5, 1.0, 1.05, 1.2, 16.0, 256.0]), st.sampled_from([0.5, 800.0, 1e5])
)
def test_whatever_it_sees_the_factor_stays_in_bounds(
    periods: list[tuple[int, float, bool, float]], most: float, owed: float
) -> None:
    one, total = Beyond(), 0
    for second, (more, age, room, part) in enumerate(periods):
        total += more
        state = State(room, max(1.0, part * most), most)
        one = one.step(float(second), owed, ChannelReading("red", None, age, 0, total), state)
        assert one.factor is None or (math.isfinite(one.factor) and 1.0 <= one.factor <= max(1.0, most))
