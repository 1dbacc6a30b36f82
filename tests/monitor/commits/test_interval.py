"""Channels whose blocks come far apart, since their BatchTimeout is long, have a rate that does not flicker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.model import Commit
from qioi.monitor import Throughput
from qioi.monitor.commits.interval import BlockInterval


def commit(block: int, transactions: int) -> Commit:
    return Commit("c", block, transactions, None, "p")


@pytest.mark.parametrize("timeout", [4.0, 7.0, 10.0, 20.0])
@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_blocks_a_long_batch_timeout_apart_do_not_flicker(timeout: float, jitter: float) -> None:
    meter, rates = Throughput(), []
    for block in range(12):
        at = block * timeout + jitter * (block % 2)
        meter.observe(commit(block, round(100 * timeout)), at)
        for phase in range(round(timeout)):
            reading = meter.reading("c", at + phase)
            if block >= 4:
                rates.append(reading.throughput)
                assert reading.silence is not None
                assert reading.silence <= 0.5
    assert rates == pytest.approx([100.0] * len(rates), rel=0.12)


def test_a_stop_is_seen_after_the_interval_and_is_zero_after_the_window() -> None:
    meter = Throughput()
    for block in range(8):
        meter.observe(commit(block, 1000), block * 10.0)
    rates = [meter.reading("c", 70.0 + silence).throughput or 0.0 for silence in (0, 9.9, 15, 20, 29.9, 30)]
    assert rates[:2] == pytest.approx([100.0, 100.0])
    assert rates == sorted(rates, reverse=True)
    assert rates[2] < 90
    assert rates[-1] == 0
    assert meter.reading("c", 85.0).silence == pytest.approx(5.0)


def test_a_channel_that_is_hardly_sent_to_keeps_the_usual_window() -> None:
    meter, at = Throughput(), 0.0
    for block, pause in enumerate((9.0, 3.0, 21.0, 14.0, 5.0, 30.0)):
        at += pause
        meter.observe(commit(block, 1), at)
        assert meter.reading("c", at).interval == 0.0
    assert meter.reading("c", at + 6.0).throughput == 0


def test_an_interval_ends_when_blocks_are_cut_by_size_or_nothing_comes() -> None:
    for after in ((1.0, 2.0), (31.0,)):
        interval = BlockInterval(6.0)
        for number in range(4):
            interval.step(10.0 * number)
        assert interval.seconds == 10.0
        assert interval.window == 30.0
        interval.step(25.0)  # older than the last: left out
        assert interval.seconds == 10.0
        for more in after:
            interval.step(30.0 + more)
        assert interval.seconds == 0.0
        assert interval.window == 6.0


def test_one_late_block_is_no_other_interval() -> None:
    interval = BlockInterval(6.0)
    for at in (0.0, 10.0, 20.0, 30.0, 55.0, 65.0, 75.0):
        interval.step(at)
    assert interval.seconds == 10.0


@given(st.lists(st.floats(0, 200), max_size=60))
def test_a_window_is_bounded(gaps: list[float]) -> None:
    interval, at = BlockInterval(6.0), 0.0
    for gap in gaps:
        at += gap
        interval.step(at)
        assert 6.0 <= interval.window <= 60.0
        assert interval.seconds == 0.0 or interval.seconds > 3.0
