"""A threshold that is learned: from which periods, and to which value."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.laws.learned import ENOUGH, KEPT, Learner
from qioi.model import ChannelReading, DelayReading, HostLoad

BUSY = HostLoad(idle=0.0, foreign=0.9)


def reading(throughput: float | None, age: float | None = 0.1) -> ChannelReading:
    return ChannelReading("red", throughput, age)


def delay(waiting: float) -> DelayReading:
    return DelayReading("peer0", run=1.0 - waiting, wait=waiting, slices=10, interval=1.0)


def taught(throughputs: list[float], waiting: float = 0.0) -> Learner:
    learner = Learner()
    for now, throughput in enumerate(throughputs):
        learner.observe(float(now), reading(throughput), [delay(0.0), delay(waiting)], BUSY)
    return learner


def test_nothing_is_owed_before_enough_is_known() -> None:
    assert taught([100.0] * (ENOUGH - 1)).threshold is None
    assert taught([100.0] * ENOUGH).threshold == 100.0


def test_periods_in_which_anybody_waits_teach_nothing() -> None:
    learner = taught([100.0] * 50, waiting=0.5)
    assert learner.threshold is None
    assert learner.evidence(50.0).samples == 0


def test_interference_does_not_lower_what_was_learned() -> None:
    learner = taught([100.0] * 30)
    for now in range(30, 1000):
        learner.observe(float(now), reading(20.0), [delay(0.6)], BUSY)
    assert learner.threshold == 100.0
    assert learner.evidence(1000.0).age == 971.0


def test_waiting_behind_the_ledger_itself_is_no_interference() -> None:
    learner = Learner()
    for now in range(ENOUGH):
        learner.observe(float(now), reading(80.0), [delay(0.6)], HostLoad(idle=0.0, foreign=0.0))
    assert learner.threshold == 80.0


def test_many_threads_in_line_behind_a_little_foreign_work_are_no_interference() -> None:
    """Fifty wait for the same moment, while others have a twentieth of the time."""
    learner = Learner()
    for now in range(ENOUGH):
        crowd = DelayReading("peer0", run=1.0, wait=50.0, slices=10, interval=1.0)
        learner.observe(float(now), reading(80.0), [crowd], HostLoad(idle=0.0, foreign=0.05))
    assert learner.threshold == 80.0


def test_a_pinned_component_is_judged_by_its_own_cpus() -> None:
    """Interference is on the CPUs that a component may run on, or it is none."""
    samples = {}
    for cpus in (HostLoad(0.0, 0.0), BUSY):
        learner = Learner()
        host = HostLoad(0.0, 0.9 - cpus.foreign, pinned={"peer0": cpus})
        for now in range(50):
            learner.observe(float(now), reading(100.0), [delay(0.5)], host)
        samples[cpus.foreign] = learner.evidence(50.0).samples
    assert samples == {0.0: 50, 0.9: 0}


def test_silence_and_the_unknown_teach_nothing() -> None:
    learner = Learner()
    for now, (seen, delays) in enumerate(
        [(None, [delay(0)]), (reading(None), [delay(0)]), (reading(0.0), [delay(0)]), (reading(5.0, None), [delay(0)]),
         (reading(5.0, 60.0), [delay(0)]), (reading(5.0), []),
         (reading(5.0), [DelayReading("peer0", 0.0, 0.0, 0, 0.0)])]
    ):  # fmt: skip
        learner.observe(float(now), seen, delays, BUSY)
    assert learner.evidence(9.0).samples == 0


def test_one_window_is_sampled_once_a_second_however_short_the_period() -> None:
    learner = Learner()
    for tenth in range(100):
        learner.observe(tenth / 10, reading(50.0), [DelayReading("peer0", 0.0, 0.0, 0, 0.1)], BUSY)
    assert learner.evidence(10.0).samples == 10


def test_it_follows_a_load_that_has_changed_for_good() -> None:
    assert taught([500.0] * 60 + [100.0] * KEPT).threshold == 100.0


@given(st.lists(st.floats(0.1, 1e5), min_size=ENOUGH, max_size=2 * KEPT))
def test_it_lies_within_its_evidence(throughputs: list[float]) -> None:
    learner = taught(throughputs)
    evidence = learner.evidence(float(len(throughputs)))
    assert learner.threshold is not None
    assert evidence.lowest is not None
    assert evidence.highest is not None
    assert evidence.lowest <= learner.threshold <= evidence.highest
