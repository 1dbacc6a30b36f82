"""A channel's front is what counts: no rate is made of the old blocks of peers behind it, nor of its own move on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.monitor.metrics.exposition import Page
from qioi.monitor.metrics.page_throughput import PageThroughput


def page(height: int) -> Page:
    return Page({"red": float(height * 10)}, {"red": height})


def lagging(second: float) -> Page:
    """Show a peer that catches up with a hundred old blocks a second."""
    return page(300 + round(100 * second))


@pytest.mark.parametrize("until", [5, 9, 20])
def test_while_the_peer_at_the_front_shows_nothing_another_ones_old_blocks_are_no_rate(until: int) -> None:
    pages = PageThroughput()
    for second in range(until + 20):
        if second <= until:
            pages.observe("front", page(110_000), float(second))
        pages.observe("late", lagging(second), float(second))
        reading = pages.reading("red", float(second))
        assert (reading.throughput or 0.0, reading.height) == (0.0, 110_000)
    assert reading.throughput is None  # the log counts


def began_anew(height: int) -> list[Page]:
    """Give the pages of a process that has begun anew: no transactions are shown before the first commit."""
    return [Page({}, {"red": height}), Page({}, {"red": height}), Page({"red": 20.0}, {"red": height + 2})]


@pytest.mark.parametrize("silent", [0, 2, 20])
@pytest.mark.parametrize("waits", [True, False])
def test_a_peer_at_the_front_that_begins_anew_makes_no_old_blocks_count(silent: int, waits: bool) -> None:
    pages, back = PageThroughput(), began_anew(110_000) if waits else began_anew(110_000)[2:]
    for second in range(silent + 30):
        pages.observe("late", lagging(second), float(second))
        began = 10 + silent
        if second < 10:
            pages.observe("front", page(110_000), float(second))
        elif second >= began:
            pages.observe("front", back[min(second - began, len(back) - 1)], float(second))
        assert (pages.reading("red", float(second)).throughput or 0.0) <= 5.0
    assert pages.reading("red", float(second)).throughput == 0.0


def test_an_orderer_that_is_ahead_of_its_peers_takes_no_rate_away() -> None:
    pages = PageThroughput()
    for second in range(9):
        pages.observe("orderer", Page({}, {"red": 500 + 5 * second}), float(second))
        pages.observe("front", page(5 * second), float(second))
    assert pages.reading("red", 8.0).throughput == pytest.approx(50)


@pytest.mark.parametrize("step", [50, 49])
def test_where_a_peer_that_caught_up_takes_over_a_window_begins_with_that(step: int) -> None:
    """The peer that was at the front is gone for good. How long its next blocks have been there is not known."""
    pages = PageThroughput()
    for second in range(30):
        if second < 5:
            pages.observe("front", page(1_000), float(second))
        pages.observe("late", page(min(300 + step * second, 1_205 + 2 * second)), float(second))
        throughput = pages.reading("red", float(second)).throughput
        assert (throughput is None) == (second < 6 or 8 < second < (20 if step == 50 else 21))
    assert throughput == pytest.approx(20.0)


def test_peers_that_are_all_at_the_front_have_a_rate_however_their_first_pages_come() -> None:
    pages = PageThroughput()
    for second in range(9):
        for number in range(5):
            now = second + number / 5
            pages.observe(f"p{number}", page(1000 + round(50 * now)), now)
    assert pages.reading("red", 9.0).throughput == pytest.approx(500, rel=0.1)


def test_a_peer_that_is_silent_takes_no_part_in_the_rate() -> None:
    pages = PageThroughput()
    for second in range(60):
        if second < 10:
            pages.observe("gone", page(100), float(second))
        pages.observe("front", page(100 + 5 * max(0, second - 50)), float(second))
    assert pages.reading("red", 59.0).throughput == pytest.approx(50)


@pytest.mark.parametrize("every", [1.0, 1.5, 2.0])
def test_looks_that_are_taken_in_peer_by_peer_have_the_rate_of_looks_in_the_order_of_time(every: float) -> None:
    """A period takes in all that one endpoint has answered before what another one has, earlier perhaps."""
    rates: dict[bool, list[float]] = {}
    for by_time in (False, True):
        pages = PageThroughput()
        for second in range(40):
            looks = [("a", second + 0.9), ("b", second + 0.1)]
            for peer, now in sorted(looks, key=lambda look: look[1]) if by_time else looks:
                pages.observe(peer, page(round(now // every)), now)
            throughput = pages.reading("red", second + 1.0).throughput
            if second >= 10 and throughput is not None:
                rates.setdefault(by_time, []).append(throughput)
    assert rates[False] == pytest.approx(rates[True])
    assert sum(rates[False]) / len(rates[False]) == pytest.approx(10 / every, rel=0.03)


@given(st.permutations([("a", 10.9, 100), ("b", 10.1, 100), ("c", 10.5, 100), ("d", 10.7, 99)]))
def test_the_front_was_last_shown_by_the_latest_look_at_it(looks: list[tuple[str, float, int]]) -> None:
    pages = PageThroughput()
    for peer, now, height in looks:
        pages.observe(peer, page(height), now)
    assert pages._channels["red"].shown == 10.9
