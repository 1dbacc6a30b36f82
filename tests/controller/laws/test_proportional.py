"""Algorithm 1, against the paper's own numbers and its properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.laws.law import Seen
from qioi.controller.laws.proportional import STALE, Proportional
from qioi.model import MAX_SHARES, MIN_SHARES, Bounds


def seen(throughput: float | None, threshold: float | None = 500.0) -> Seen:
    return Seen(now=0.0, throughput=throughput, threshold=threshold)


def test_the_papers_example() -> None:
    _, verdict = Proportional().step(seen(400))  # k is 4, unless said otherwise
    assert verdict.shares == round(1024 + 1024 * 4 * 100 / 500)
    assert verdict.error == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("throughput", "threshold", "previous", "k", "default", "expected"),
    [
        (0, 500, 1024, 4, 1024, 5120),  # nothing commits: the most the algorithm gives
        (500, 500, 3000, 4, 1024, 3000),  # at the threshold: S_prev
        (900, 500, 3000, 4, 1024, 3000),  # above: S_prev, however far
        (499, 500, 5120, 4, 1024, 1032),  # no memory: just below T it falls back
        (250, 500, 1024, 2, 1024, 2048),
        (250, 500, 1024, 10, 1024, 6144),
        (250, 500, 512, 4, 512, 1536),  # S_default is configurable
    ],
)
def test_table(throughput: float, threshold: float, previous: int, k: float, default: int, expected: int) -> None:
    law, verdict = Proportional(previous, k, default).step(seen(throughput, threshold))
    assert verdict.shares == law.share == expected


@pytest.mark.parametrize(("throughput", "threshold"), [(None, 500.0), (100.0, None)])
def test_share_stays_while_something_is_unknown(throughput: float | None, threshold: float | None) -> None:
    law, verdict = Proportional(3000).step(seen(throughput, threshold))
    assert law.share == verdict.shares == 3000
    assert verdict.error is None


def test_input_that_is_stale_is_no_reason_to_stay_raised() -> None:
    law, _ = Proportional().step(Seen(now=10.0, throughput=100.0, threshold=500.0))
    raised = law.share
    law, held = law.step(Seen(now=10.0 + STALE, throughput=None, threshold=500.0))
    assert (held.shares, held.working.rule if held.working else "") == (raised, "hold")
    law, back = law.step(Seen(now=10.1 + STALE, throughput=None, threshold=500.0))
    assert (back.shares, back.working.rule if back.working else "") == (1024, "no input")
    law, _ = law.step(Seen(now=100.0, throughput=100.0, threshold=500.0))
    assert law.share == raised
    assert law.step(Seen(now=101.0, throughput=None, threshold=500.0))[1].shares == raised


def test_bounds_are_applied_and_said() -> None:
    _, verdict = Proportional(k=100, bounds=Bounds(1024, 8192)).step(seen(0))
    assert verdict.shares == 8192
    assert "bounded to 1024..8192" in verdict.reason


def test_infinite_want_is_the_ceiling() -> None:
    assert Proportional(k=1e308, default=262144).step(seen(0))[1].shares == MAX_SHARES


@pytest.mark.parametrize(("floor", "ceiling"), [(1, 100), (2, 300_000), (500, 400)])
def test_impossible_bounds_are_refused(floor: int, ceiling: int) -> None:
    with pytest.raises(ValueError, match="accepted is 2 <= floor <= ceiling <= 262144"):
        Bounds(floor, ceiling)


rate = st.floats(0, 1e9)
positive = st.floats(1e-6, 1e9)
share = st.integers(MIN_SHARES, MAX_SHARES)


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    low, high = sorted((draw(share), draw(share)))
    return Bounds(low, high)


@given(rate, positive, positive, share, share, bounds())
def test_never_outside_the_bounds(a: float, t: float, k: float, previous: int, default: int, limits: Bounds) -> None:
    law, verdict = Proportional(previous, k, default, limits).step(seen(a, t))
    assert limits.floor <= verdict.shares <= limits.ceiling
    assert law.share == verdict.shares


@given(rate, rate, positive, positive)
def test_less_throughput_never_gives_less(a: float, b: float, t: float, k: float) -> None:
    low, high = sorted((a, b))
    if high < t:
        assert Proportional(k=k).step(seen(low, t))[1].shares >= Proportional(k=k).step(seen(high, t))[1].shares


@given(rate, positive, positive, positive)
def test_a_larger_k_never_gives_less(a: float, t: float, k1: float, k2: float) -> None:
    low, high = sorted((k1, k2))
    assert Proportional(k=low).step(seen(a, t))[1].shares <= Proportional(k=high).step(seen(a, t))[1].shares


def test_it_goes_on_from_a_share_within_its_bounds_and_has_nothing_to_limit() -> None:
    law = Proportional(4096, bounds=Bounds(1024, 8192), known_at=1.0)
    assert law.at(20_000) == Proportional(8192, bounds=Bounds(1024, 8192))
    assert law.limited(2000, 1000) is law
