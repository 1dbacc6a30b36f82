"""The law ``adaptive``, whatever is seen."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from stepped_law import CROWDED, law_at, seen

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Seen
from qioi.controller.laws.memory import Tuning
from qioi.model import MAX_SHARES, MIN_SHARES, Bounds, DelayReading, HostLoad

number = st.floats(0, 100)
maybe = st.none() | number
one_load = st.builds(HostLoad, st.floats(0, 1), st.floats(0, 1))
host = st.none() | st.builds(HostLoad, st.floats(0, 1), st.floats(0, 1), st.none() | one_load, st.booleans())
reading = st.none() | st.builds(
    DelayReading, st.just("c"), st.floats(-1, 100), st.floats(-1, 100), st.integers(0, 9), st.floats(0, 10)
)
world = st.builds(Seen, number, maybe, st.none() | st.floats(0.001, 1000), maybe, reading, host, st.booleans())


@settings(max_examples=300)
@given(st.lists(world, max_size=30), st.integers(MIN_SHARES, MAX_SHARES), st.data())
def test_never_outside_the_bounds_whatever_is_seen(inputs: list[Seen], default: int, data: st.DataObject) -> None:
    floor = data.draw(st.integers(MIN_SHARES, MAX_SHARES))
    ceiling = data.draw(st.integers(floor, MAX_SHARES))
    law = Adaptive.start(default, Bounds(floor, ceiling))
    for one in inputs:
        before = law.memory.share
        law, verdict = law.step(one)
        assert floor <= verdict.shares <= ceiling
        assert law.memory.share <= max(before * law.stride, law.rest * Tuning().onset_step) + 1


@given(st.floats(0, 0.99), st.floats(0, 0.99), st.floats(1024, 16384))
def test_more_waiting_never_gives_less(one: float, other: float, share: float) -> None:
    low, high = sorted((one, other))
    after = [law_at(share).step(seen(1, need, host=CROWDED))[1].shares for need in (low, high)]
    assert after[0] <= after[1]


@given(st.floats(0, 200), st.floats(0, 200), st.floats(0, 0.99))
def test_less_throughput_never_gives_less(one: float, other: float, need: float) -> None:
    low, high = sorted((one, other))
    after = [law_at(2000).step(seen(1, need, a=a, t=100, host=CROWDED))[1].shares for a in (low, high)]
    assert after[0] >= after[1]
