"""What the daemon's cost is measured at: blocks are written at the rate that a shape names, however long each takes."""

from __future__ import annotations

import pytest
from bench_daemon import paced


class Clock:
    """A clock that only sleeping and writing move on."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("bench_daemon.time", clock)
    return clock


@pytest.mark.parametrize(
    ("blocks", "each", "rate"),
    [
        (10.0, 0.0, 10.0),
        (10.0, 0.03, 10.0),
        (10.0, 0.09, 10.0),
        (0.5, 1.5, 0.5),
        (10.0, 0.2, 5.0),  # a host that is too slow
    ],
)
def test_blocks_are_written_at_their_rate(clock: Clock, blocks: float, each: float, rate: float) -> None:
    written = 0

    def write() -> None:
        nonlocal written
        written += 1
        clock.sleep(each)

    assert paced(20.0, blocks, write) == pytest.approx(rate)
    assert written == pytest.approx(20.0 * rate)


def test_a_write_that_took_long_is_made_up_for(clock: Clock) -> None:
    pauses = iter([0.55])
    assert paced(2.0, 10.0, lambda: clock.sleep(next(pauses, 0.0))) == pytest.approx(10.0)


def test_one_block_at_least_is_written(clock: Clock) -> None:
    assert paced(0.0, 10.0, lambda: None) == pytest.approx(10.0)
    assert clock.now == pytest.approx(100.1)
