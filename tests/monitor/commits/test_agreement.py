"""The rate that several organisations' peers agree on counts: what one of them forges makes no channel look served."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.model import Commit
from qioi.model.names import MAX_CHANNELS
from qioi.monitor.commits.agreement import WITNESSES, AgreedThroughput

ORGANISATIONS = {"a0": "A", "a1": "A", "b0": "B", "c0": "C"}


def commit(block: int, peer: str, transactions: int = 10, channel: str = "red") -> Commit:
    return Commit(channel, block, transactions, None, peer)


def meter() -> AgreedThroughput:
    made = AgreedThroughput()
    made.organise(ORGANISATIONS, ())
    return made


def steady(agreed: AgreedThroughput, peer: str, since: float, until: float, every: float, first: int = 0) -> None:
    count = round((until - since) / every)
    for number in range(count + 1):
        agreed.observe(commit(first + number, peer), since + number * every)


@pytest.mark.parametrize("forger", [["b0"], ["a0", "a1"]])
@pytest.mark.parametrize("first", [0, 1_000_000])
def test_what_one_organisation_forges_makes_no_channel_look_served(forger: list[str], first: int) -> None:
    agreed, honest = meter(), "a0" if "b0" in forger else "b0"
    for tenth in range(200):
        for one in forger:
            agreed.observe(commit(first + tenth, one, 100), tenth * 0.1)
        if tenth % 10 == 0:
            agreed.observe(commit(tenth // 10, honest), tenth * 0.1)
    reading = agreed.reading("red", 20.0)
    assert reading.throughput == pytest.approx(10.0, rel=0.1)
    assert reading.committed is not None
    assert reading.committed <= 200


@pytest.mark.parametrize("liar_rate", [0.01, 1.0, 100.0])
def test_of_three_organisations_one_liar_changes_nothing(liar_rate: float) -> None:
    agreed = meter()
    for peer in ("a0", "b0"):
        steady(agreed, peer, 0.0, 20.0, 0.1)
    steady(agreed, "c0", 0.0, 20.0, 0.1 / liar_rate)
    assert agreed.reading("red", 20.0).throughput == pytest.approx(100.0, rel=0.15)


def test_where_one_organisation_reports_alone_its_rate_counts() -> None:
    agreed = meter()
    steady(agreed, "a0", 0.0, 20.0, 0.1)
    steady(agreed, "a1", 0.0, 20.0, 0.1)  # a block counts once
    assert agreed.reading("red", 20.0).throughput == pytest.approx(100.0)
    assert agreed.reading("red", 20.0).committed == 2010


def test_a_peer_that_stops_lowers_no_rate() -> None:
    agreed = meter()
    steady(agreed, "b0", 0.0, 10.0, 0.1)
    for second in range(60):
        steady(agreed, "a0", second, second + 0.9, 0.1, 10 * second)
        if second >= 10:
            assert agreed.reading("red", second + 0.95).throughput == pytest.approx(100.0, rel=0.05)
            assert agreed.reading("red", second + 0.95).age == pytest.approx(0.05)


def test_a_peer_that_catches_up_adds_nothing_and_takes_nothing() -> None:
    agreed = meter()
    steady(agreed, "a0", 0.0, 30.0, 0.1)
    steady(agreed, "b0", 0.0, 10.0, 0.1)
    steady(agreed, "b0", 25.0, 30.0, 0.025, 101)  # what it missed, four times as fast
    assert agreed.reading("red", 30.0).throughput == pytest.approx(100.0, rel=0.05)


def test_silence_of_all_lowers_the_rate_to_zero() -> None:
    agreed = meter()
    for peer in ("a0", "b0"):
        steady(agreed, peer, 0.0, 10.0, 0.1)
    rates = [agreed.reading("red", 10.0 + silence).throughput for silence in (0, 1, 3, 6.1)]
    assert rates[0] == pytest.approx(100.0)
    assert rates == sorted(rates, key=lambda one: one or 0.0, reverse=True)
    assert rates[-1] == 0


def test_a_peer_that_is_watched_no_more_does_not_count_where_another_reports() -> None:
    agreed = meter()
    steady(agreed, "a0", 0.0, 10.0, 0.1)
    steady(agreed, "b0", 0.0, 10.0, 1.0)
    assert agreed.reading("red", 10.0).throughput == pytest.approx(10.0, rel=0.1)
    agreed.organise({"a0": "A"}, ())
    assert agreed.reading("red", 10.0).throughput == pytest.approx(100.0)
    agreed.organise({}, ())  # the last one's window stays known while its container starts anew
    assert agreed.channels == ("red",)
    assert agreed.reading("red", 10.0).throughput is not None


def test_a_peer_whose_organisation_is_not_known_is_one_of_its_own() -> None:
    agreed = AgreedThroughput()
    steady(agreed, "p0", 0.0, 10.0, 0.1)
    steady(agreed, "p1", 0.0, 10.0, 1.0)
    assert agreed.reading("red", 10.0).throughput == pytest.approx(10.0, rel=0.1)


def test_so_many_organisations_are_counted_and_silent_ones_make_room() -> None:
    agreed = AgreedThroughput()
    for number in range(WITNESSES):
        steady(agreed, f"p{number}", 0.0, 10.0, 1.0)
    steady(agreed, "late", 0.0, 10.0, 0.1)
    assert agreed.reading("red", 10.0).throughput == pytest.approx(10.0, rel=0.1)
    for peer in ("late", "later"):
        steady(agreed, peer, 100.0, 110.0, 0.1, 1000)
    assert agreed.reading("red", 110.0).throughput == pytest.approx(100.0, rel=0.05)


@pytest.mark.parametrize("organisations", [3, 4, 6])
@pytest.mark.parametrize("interval", [2.0, 10.0, 20.0, 50.0])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_that_are_far_apart_read_steadily_however_many_organisations_report(
    organisations: int, interval: float, seed: int
) -> None:
    agreed, chance = AgreedThroughput(), random.Random(seed)
    readings = []
    for block in range(20):
        began = block * interval
        arrivals = [(began + chance.uniform(0.0, 0.3), f"p{one}") for one in range(organisations)]
        for instant, peer in sorted(arrivals):
            agreed.observe(commit(block, peer, round(50 * interval)), instant)
        if block >= 5:  # the interval is known from the fourth on
            readings += [agreed.reading("red", began + share * interval).throughput for share in (0.2, 0.5, 0.9)]
    assert readings == pytest.approx([50.0] * len(readings), rel=0.1)


def test_channels_are_bounded_and_each_peers_first_ones_come_first() -> None:
    agreed = AgreedThroughput()
    for number in range(150):
        agreed.observe(commit(1, "forger", channel=f"invented{number}"), 0.0)
    agreed.observe(commit(1, "honest", channel="red"), 1.0)
    assert len(agreed.channels) == 101
    assert "red" in agreed.channels[:2]
    for number in range(MAX_CHANNELS):
        agreed.observe(commit(1, f"peer{number}", channel=f"more{number}"), 0.0)
    assert len(agreed.channels) == MAX_CHANNELS
    assert agreed.reading("none", 1.0).throughput is None


def test_channels_with_a_policy_count_however_many_one_peer_serves() -> None:
    agreed, named = AgreedThroughput(), [f"c{number}" for number in range(150)]
    agreed.organise({"p": "A"}, named[:140])
    for channel in named:
        agreed.observe(commit(1, "p", channel=channel), 0.0)
    assert set(agreed.channels) == set(named[:140])
    agreed.organise({"p": "A"}, named)  # a reload
    agreed.observe(commit(2, "p", channel="c149"), 1.0)
    assert "c149" in agreed.channels


def test_channels_whose_peers_have_left_crowd_out_no_other() -> None:
    """Where test networks come and go, each has a channel of its own, and peers of the same organisations."""
    agreed = AgreedThroughput()
    for number in range(MAX_CHANNELS + 1):
        agreed.organise({f"peer{number}": "A", f"other{number}": "B"}, ())
        agreed.observe(commit(1, f"peer{number}", channel=f"run{number}"), float(number))
        assert agreed.channels[0] == f"run{number}"
    assert len(agreed.channels) == MAX_CHANNELS
    agreed.observe(commit(2, f"peer{number}", channel="run5"), 2000.0)  # a name that is used again
    assert set(agreed.channels[:2]) == {"run5", f"run{number}"}
    assert agreed.heard(MAX_CHANNELS) == ("run5", f"run{MAX_CHANNELS}")


@given(st.lists(st.tuples(st.sampled_from(["a0", "b0", "c0", "x"]), st.integers(0, 30), st.floats(0, 3)), max_size=60))
def test_whatever_is_reported_the_count_only_grows(reports: list[tuple[str, int, float]]) -> None:
    agreed, now, before = meter(), 0.0, 0
    for peer, block, pause in reports:
        now += pause
        agreed.observe(commit(block, peer), now)
        reading = agreed.reading("red", now)
        assert reading.throughput is None or reading.throughput >= 0
        assert reading.age is not None
        assert reading.age >= 0
        assert reading.committed is not None
        assert reading.committed >= before
        before = reading.committed


class Walked(dict[str, object]):
    """Counts the channels that are walked over."""

    walked = 0

    def items(self):  # type: ignore[no-untyped-def]
        for one in super().items():
            self.walked += 1
            yield one


def test_a_log_that_invents_channels_has_no_others_looked_at_where_there_is_no_room() -> None:
    """A look may read as many lines as 40,000, each of which could name a channel."""
    agreed = AgreedThroughput()
    agreed.organise({f"p{number}": "A" for number in range(MAX_CHANNELS)}, ())
    for number in range(MAX_CHANNELS):
        agreed.observe(commit(1, f"p{number}", channel=f"c{number}"), 1.0)
    known = agreed._channels = Walked(agreed._channels)  # type: ignore[assignment]
    for number in range(100):
        agreed.observe(commit(1, "forger", channel=f"invented{number}"), 2.0)
    assert len(agreed.channels) == MAX_CHANNELS
    assert known.walked <= MAX_CHANNELS
    agreed.organise({f"p{number}": "A" for number in range(2, MAX_CHANNELS)}, ())
    for number in range(4):
        agreed.observe(commit(1, "p9", channel=f"new{number}"), 3.0)
    assert {"new0", "new1"} <= set(agreed.channels)
    assert len(agreed.channels) == MAX_CHANNELS
