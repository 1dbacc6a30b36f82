"""Neighbours that come late in a period: left to the period, and met by two that begin early (qioi/daemon/pace.py)."""

from __future__ import annotations

import pytest
from test_closed_loop import DEMAND, Loop
from toy_host import ToyHost

from qioi.controller.laws.law import Seen
from qioi.daemon.pace import SHORT
from qioi.model import DelayReading, HostLoad

#: Seconds after which looks between periods have found an onset (monitor/onset.py).
FOUND = 0.45


def mixed(loop: Loop, hogs: int, alone: float, beside: float) -> None:
    """Run one period of which only the last part is beside neighbours."""
    parts = []
    for seconds, count in ((alone, 0), (beside, hogs)):
        loop.host.hogs = count
        parts.append((seconds, loop.host.period(loop.shares, seconds)))
    loop.now += alone + beside
    idle, foreign = (
        sum(seconds * getattr(part[1], key) for seconds, part in parts) / (alone + beside)
        for key in ("idle", "foreign")
    )
    for name, law in loop.laws.items():
        run, wait = (sum(getattr(part[0][name], key) for _, part in parts) for key in ("run", "wait"))
        delay = DelayReading(name, run, wait, 200, alone + beside)
        loop.laws[name], _ = law.step(Seen(loop.now, 100.0, 100.0, 0.1, delay, HostLoad(idle, foreign)))


def begin(seed: int) -> Loop:
    loop = Loop(ToyHost(demand=dict(DEMAND), seed=seed))
    loop.run(20)
    return loop


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_period_of_which_they_have_a_tenth_is_not_believed(seed: int) -> None:
    loop = begin(seed)
    mixed(loop, 16, 0.9, 0.1)
    assert set(loop.shares.values()) == {1024}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("alone", [0.05, 0.3, 0.55])
@pytest.mark.parametrize("hogs", [8, 16])
def test_the_short_period_after_an_onset_is_believed(hogs: int, alone: float, seed: int) -> None:
    loop = begin(seed)
    mixed(loop, hogs, alone, FOUND)
    loop.dt = SHORT
    loop.run(SHORT)
    assert all(share > 1024 for share in loop.shares.values())


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("scale", [0.3, 1.0, 1.9])
def test_periods_that_begin_early_for_nothing_raise_nothing(scale: float, seed: int) -> None:
    loop = Loop(ToyHost(demand={name: demand * scale for name, demand in DEMAND.items()}, seed=seed))
    for _ in range(20):
        for loop.dt in (1.0, 0.4, SHORT, 1.0):
            loop.run(loop.dt)
    assert set(loop.shares.values()) == {1024}
