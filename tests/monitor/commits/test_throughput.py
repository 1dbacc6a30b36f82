from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from qioi.model import Commit
from qioi.model.names import MAX_CHANNELS
from qioi.monitor import Throughput, commit_instant
from qioi.monitor.commits.throughput import MAX_OF_A_PEER


def commit(block: int, transactions: int = 10, peer: str = "p", channel: str = "c") -> Commit:
    return Commit(channel, block, transactions, None, peer)


def rate(meter: Throughput, now: float, channel: str = "c") -> float:
    value = meter.reading(channel, now).throughput
    assert value is not None
    return value


def steady(meter: Throughput, blocks: range, interval: float, transactions: int = 10, peer: str = "p") -> float:
    """Commit blocks at a steady pace; block n at n * interval."""
    for block in blocks:
        meter.observe(commit(block, transactions, peer), block * interval)
    return blocks[-1] * interval


def test_the_equation() -> None:
    meter = Throughput(window=6)
    for block, (instant, transactions) in enumerate([(0, 5), (1, 100), (3, 200), (7, 60)]):
        meter.observe(commit(block, transactions), instant)
    # The window of 8 opens at 2; ti is the last commit before, at 1; tj is the last one, at 7.
    assert rate(meter, 8) == pytest.approx((200 + 60) / (7 - 1))
    assert meter.transactions("c") == 365


def test_no_data_is_not_zero() -> None:
    meter = Throughput(window=6)
    assert meter.reading("c", 100.0).throughput is None
    assert meter.reading("c", 100.0).age is None
    end = steady(meter, range(5), 0.5)
    assert meter.reading("c", end).throughput is None  # the window is not full yet
    assert meter.reading("c", end).age == 0
    assert rate(meter, 60) == 0
    assert meter.reading("c", 60).age == 58
    assert meter.reading("c", 60).height == 4


@pytest.mark.parametrize("phase", [0.0, 0.1, 0.5, 1.0, 1.5, 1.9, 1.999])
def test_bursts_a_batch_timeout_apart_do_not_flicker(phase: float) -> None:
    meter = Throughput()
    end = steady(meter, range(20), 2.0, 1000)
    assert rate(meter, end + phase) == pytest.approx(500)


def test_silence_longer_than_any_gap_lowers_the_rate_to_zero() -> None:
    meter = Throughput()
    end = steady(meter, range(100), 0.1, 10)
    rates = [rate(meter, end + silence) for silence in (0, 0.1, 1, 2, 4, 5.9, 6.0)]
    assert rates[0] == rates[1] == pytest.approx(100)
    assert rates == sorted(rates, reverse=True)
    assert rates[2] == pytest.approx(85, rel=0.02)
    assert rates[-1] == 0


def test_idle_time_before_does_not_count() -> None:
    meter = Throughput()
    steady(meter, range(50), 0.1)
    for number in range(31):
        meter.observe(commit(50 + number), 1000 + number * 0.1)
    assert rate(meter, 1003) == pytest.approx(100)


def test_a_lone_commit_after_idle_time_counts_over_the_window() -> None:
    meter = Throughput(window=6)
    meter.observe(commit(1), 0)
    meter.observe(commit(2, 30), 100)
    assert rate(meter, 100) == 5


def test_a_peer_that_catches_up_does_not_count_again() -> None:
    meter = Throughput()
    end = steady(meter, range(1000, 1100), 0.1)
    before = rate(meter, end)
    for block in range(1099):
        meter.observe(commit(block, peer="late"), end)
    assert rate(meter, end) == before
    assert meter.reading("c", end).height == 1099


def test_a_peer_that_is_watched_first_and_lags_does_not_hold_the_others_back() -> None:
    meter = Throughput()
    for number in range(100):
        meter.observe(commit(number, peer="late"), number * 0.1)
        meter.observe(commit(5000 + number), number * 0.1)
    assert rate(meter, 9.9) == pytest.approx(100)


def test_lost_lines_do_not_stop_the_count() -> None:
    meter = Throughput()
    steady(meter, range(50), 0.1)
    end = steady(meter, range(60, 200), 0.1)
    assert meter.transactions("c") == 1900
    assert rate(meter, end) == pytest.approx(100)


def test_a_lone_forged_block_far_ahead_changes_nothing() -> None:
    meter = Throughput()
    steady(meter, range(100), 0.1)
    meter.observe(commit(2**64 - 1, 10**9), 9.95)
    end = steady(meter, range(100, 110), 0.1)
    assert rate(meter, end) == pytest.approx(100)
    assert meter.transactions("c") == 1100


def test_forged_blocks_in_a_row_are_taken_back_when_the_peer_goes_on() -> None:
    meter = Throughput()
    steady(meter, range(100), 0.1)
    for block in range(10**6, 10**6 + 5):
        meter.observe(commit(block, 10**6), 9.95)
    end = steady(meter, range(100, 110), 0.1)
    assert rate(meter, end) == pytest.approx(100)
    assert meter.transactions("c") == 1100
    assert meter.reading("c", end).height == 109


def test_a_forged_number_of_transactions_is_corrected_by_the_real_line() -> None:
    meter = Throughput()
    end = steady(meter, range(100), 0.1)
    meter.observe(commit(100, 10**9), end + 0.05)
    meter.observe(commit(100, 10), end + 0.1)
    assert meter.transactions("c") == 1010


def test_a_network_that_begins_anew_is_followed() -> None:
    meter = Throughput()
    for peer in "ab":
        steady(meter, range(1000), 0.1, peer=peer)
    for block in range(100):
        for peer in "ab":
            meter.observe(commit(block, peer=peer), 101 + block * 0.1)
    assert rate(meter, 110.9) == pytest.approx(100)
    assert meter.reading("c", 110.9).height == 99


def test_a_forgotten_peer_does_not_hold_up_a_new_network() -> None:
    meter = Throughput()
    for peer in "ab":
        steady(meter, range(1000), 0.1, peer=peer)
    meter.forget("b")
    for block in range(100):
        meter.observe(commit(block, peer="a"), 101 + block * 0.1)
    assert meter.reading("c", 111).height == 99


def test_channels_are_apart() -> None:
    meter = Throughput()
    for channel in ("a", "b"):
        meter.observe(commit(1, channel=channel), 0)
    assert [meter.reading(name, 1).channel for name in meter.channels] == ["a", "b"]


def test_a_peer_that_invents_channels_takes_no_other_peers_place() -> None:
    meter = Throughput()
    for number in range(2 * MAX_CHANNELS):
        meter.observe(commit(1, peer="forger", channel=f"invented{number}"), 0)
    assert len(meter.channels) == MAX_OF_A_PEER
    meter.observe(commit(1, peer="honest", channel="real"), 0)
    assert meter.observe(commit(2, peer="forger", channel="real"), 1)
    assert meter.channels[:2] == ("invented0", "real")


def test_what_one_peer_alone_may_name_is_no_bound_for_channels_that_are_expected() -> None:
    meter = Throughput()
    meter.expected = frozenset({"late", "later"})
    for number in range(2 * MAX_OF_A_PEER):
        meter.observe(commit(1, channel=f"c{number}"), 0)
    for channel in ("late", "later", "other"):
        meter.observe(commit(1, channel=channel), 0)
    assert meter.channels[MAX_OF_A_PEER:] == ("late", "later")


def test_a_channel_that_is_dropped_leaves_its_peer_room_for_another() -> None:
    meter = Throughput()
    for number in range(2 * MAX_OF_A_PEER):
        meter.observe(commit(1, channel=f"c{number}"), 0)
        meter.drop(f"c{number}")
    meter.observe(commit(1, channel="new"), 0)
    assert meter.channels == ("new",)
    meter.forget("p")
    meter.drop("new")
    for number in range(2 * MAX_OF_A_PEER):
        meter.observe(commit(1, channel=f"c{number}"), 0)
    assert len(meter.channels) == MAX_OF_A_PEER


def test_channels_are_bounded_however_many_peers_invent_them() -> None:
    meter = Throughput()
    for number in range(2 * MAX_CHANNELS):
        meter.observe(commit(1, peer=f"peer{number}", channel=f"invented{number}"), 0)
    assert len(meter.channels) == MAX_CHANNELS


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 0"):
        Throughput(window=0)


@pytest.mark.slow
def test_a_flood_is_bounded_in_memory_and_keeps_its_sum() -> None:
    meter = Throughput()
    for block in range(120_000):
        meter.observe(commit(block, 1), block / 60_000)
    assert meter.transactions("c") == 120_000
    assert rate(meter, 6.0) > 0


@pytest.mark.parametrize(
    ("line_time", "expected"),
    [
        (1000.0, 50.0),
        (999.5, 49.5),
        (995.0, 45.0),
        (990.0, 50.0),  # in a backlog, or the clock was set forward
        (1000.1, 50.0),  # from the future: the clock was set back
        (None, 50.0),
        (float("inf"), 50.0),
    ],
)
def test_the_instant_of_a_live_commit(line_time: float | None, expected: float) -> None:
    assert commit_instant(line_time, 50.0, 1000.0, 5.0) == expected


BLOCKS = st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 500)), min_size=5, max_size=60)


@given(BLOCKS, st.data())
def test_throughput_does_not_depend_on_how_many_peers_report(
    blocks: list[tuple[float, int]], data: st.DataObject
) -> None:
    """More peers, each late by its own time, reporting twice, in any order at one instant: the same readings."""
    alone, together = Throughput(), Throughput()
    reports: list[tuple[float, int, Commit]] = []
    instant = 0.0
    for number, (gap, transactions) in enumerate(blocks):
        instant += gap
        reports.append((instant, number, commit(number, transactions)))
    lag = {"p": 0.0, "q": data.draw(st.floats(0, 20)), "r": data.draw(st.sampled_from([0.0, 0.5, 100.0]))}
    many = [
        (at + lag[peer], number, commit(one.block, one.transactions, peer))
        for at, number, one in reports
        for peer in lag
        for _ in range(data.draw(st.integers(1, 2)))
    ]
    order = data.draw(st.randoms())
    order.shuffle(many)
    many.sort(key=lambda report: (report[0], report[1]))
    for at, _, one in reports:
        alone.observe(one, at)
    for at, _, one in many:
        together.observe(one, at)
    assert together.transactions("c") == alone.transactions("c")
    for now in (instant, instant + 0.5, instant + 3, instant + 10):
        first, second = Throughput(), Throughput()
        for at, _, one in reports:
            if at <= now:
                first.observe(one, at)
        for at, _, one in many:
            if at <= now:
                second.observe(one, at)
        assert second.reading("c", now) == first.reading("c", now)


@given(BLOCKS, st.floats(0, 30), st.floats(0.5, 20))
def test_a_reading_is_bounded_and_scales(blocks: list[tuple[float, int]], later: float, window: float) -> None:
    meter, double = Throughput(window), Throughput(window)
    instant = 0.0
    for number, (gap, transactions) in enumerate(blocks):
        instant += gap
        meter.observe(commit(number, transactions), instant)
        double.observe(commit(number, 2 * transactions), instant)
    reading = meter.reading("c", instant + later)
    assume(reading.throughput is not None)
    assert reading.throughput is not None
    assert 0 <= reading.throughput <= sum(count for _, count in blocks) / (window / 3) + 1e-6
    assert double.reading("c", instant + later).throughput == pytest.approx(2 * reading.throughput)
    assert reading.height == len(blocks) - 1


@given(
    st.lists(
        st.tuples(st.integers(0, 30) | st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.sampled_from("pqr")),
        max_size=60,
    )
)
def test_whatever_is_reported_the_reading_is_a_number(reports: list[tuple[int, int, str]]) -> None:
    meter = Throughput()
    for number, (block, transactions, peer) in enumerate(reports):
        meter.observe(commit(block, transactions, peer), number * 0.3)
        value = meter.reading("c", number * 0.3).throughput
        assert value is None or 0 <= value < float("inf")
        assert meter.transactions("c") >= 0


class LongWay(Throughput):
    """Knows no short way."""

    def _is_nothing_new(self, *_: object) -> bool:
        return False


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 0, 0, 0, 1, 2, 5, -1, 100]),
            st.sampled_from([1, 10]),
            st.sampled_from("pqr"),
            st.sampled_from([0.0, 0.1, 1.0, -0.5, 50_000.0]),
            st.sampled_from([None, None, None, None, "p", "q"]),
        ),
        max_size=80,
    )
)
def test_the_short_way_comes_to_the_same(steps: list[tuple[int, int, str, float, str | None]]) -> None:
    """Peers go on where they are, jump, go back, are late or forgotten."""
    short, long = Throughput(), LongWay()
    heads = dict.fromkeys("pqr", 0)
    now = 0.0
    for jump, transactions, peer, gap, gone in steps:
        heads[peer] = max(0, heads[peer] + 1 + jump)
        now += gap
        one = commit(heads[peer], transactions, peer)
        assert short.observe(one, now) == long.observe(one, now)
        if gone is not None:
            short.forget(gone)
            long.forget(gone)
        assert short.reading("c", now) == long.reading("c", now)
        assert short.transactions("c") == long.transactions("c")


def test_a_front_that_nobody_vouches_for_any_more_leaves_no_events_behind() -> None:
    meter = Throughput(window=6)
    meter.observe(commit(100, peer="a"), 0.0)
    meter.observe(commit(50, peer="b"), 0.1)  # lags behind
    for block in (5, 6):  # a begins anew
        meter.observe(commit(block, peer="a"), 1.0 + block)
    reading = meter.reading("c", 8.0)
    assert (reading.height, reading.throughput, reading.age) == (50, None, None)
    assert meter.transactions("c") == 0


def test_a_jump_counts_once_another_peer_reports_the_same_block_and_no_sooner() -> None:
    meter = Throughput(window=6)
    for block in range(5):
        for peer in ("a", "b"):
            meter.observe(commit(block, peer=peer), float(block))
    assert not meter.observe(commit(1000, 999_999, peer="b"), 5.0)
    assert (meter.reading("c", 5.0).height, meter.transactions("c")) == (4, 50)
    assert meter.observe(commit(1000, 7, peer="a"), 5.5)
    assert meter.reading("c", 5.5).height == 1000


def test_old_blocks_count_no_more_after_an_idle_hour_than_before() -> None:
    """Where nothing is committed all peers are silent, and one that was down has the more to catch up with."""
    meter = Throughput()
    meter.observe(commit(20_000, peer="back"), 0.0)
    end = steady(meter, range(110_000, 110_100), 0.1)
    for block in range(20_001, 20_400):
        meter.observe(commit(block, peer="back"), end + 3600 + block * 0.001)
    reading = meter.reading("c", end + 3700)
    assert (reading.height, reading.throughput, reading.committed) == (110_099, 0, 1010)


@pytest.mark.parametrize(("silent", "height"), [(86_399.0, 101), (86_401.0, 2)])
def test_a_silent_peer_holds_the_front_of_a_network_begun_anew_for_a_day(silent: float, height: int) -> None:
    meter = Throughput(window=6)
    for block in (100, 101):
        meter.observe(commit(block, peer="a"), 0.0)
    for block in (1, 2):
        meter.observe(commit(block, peer="b"), silent)
    assert meter.reading("c", silent).height == height


def test_more_commits_than_are_kept_are_counted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qioi.monitor.commits.throughput._MAX_EVENTS", 10)
    meter = Throughput(window=6)
    end = steady(meter, range(1000), 0.01)
    assert len(meter._channels["c"].events) <= 10
    assert meter.transactions("c") == 10_000
    assert end > 6
