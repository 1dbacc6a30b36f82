"""The guard of slices: they are journalled before they are set, and put back; nobody else's touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slice_kernel import child, grow, tids
from toy_scheduler import DEFAULT
from toy_threads import ToyThreads

from qioi.controller.guard.journal import Journal
from qioi.controller.guard.thread_slices import NAME, Counts, SliceGuard, restore_threads
from qioi.controller.guard.writer import CALM, PAUSE
from qioi.controller.levers import eevdf
from qioi.controller.levers.eevdf import SHORTEST, Attributes, Kernel
from qioi.controller.levers.slices import size


def test_set_refreshed_and_put_back(toy: ToyThreads) -> None:
    assert toy.guard.apply({"g": 300_000}) == Counts(set=2)
    assert toy.guard.apply({"g": 300_000}) == Counts()
    assert toy.scheduler.threads[1] == Attributes(0, 1, -5, 300_000)  # policy, flags and nice are kept
    toy.groups["g"].append(3)
    toy.scheduler.add(3, 300_000)  # made by one of them, and has its slice from there
    toy.groups["g"].append(4)
    toy.scheduler.add(4)
    assert toy.guard.apply({"g": 300_000}) == Counts(set=1)
    assert toy.guard.apply({"g": 400_000}) == Counts(set=4)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT, 4: DEFAULT}
    assert not toy.journal.file.exists()


@pytest.mark.parametrize("default", [2_100_000, 3_500_000], ids=["fewer CPUs", "more of them"])
def test_a_default_that_moves_while_slices_are_in_force_is_no_original_and_is_what_is_put_back(
    toy: ToyThreads, default: int
) -> None:
    """The kernel scales it with the number of CPUs online, and tools set it (base_slice_ns)."""
    toy.guard.apply({"g": 300_000})
    toy.scheduler.default = default
    toy.join(3, default)
    toy.join(4)  # asleep since before, it still has the default of then
    assert toy.guard.look() == default
    assert toy.guard.apply({"g": 300_000}) == Counts(set=2)
    assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == {1: default, 2: 5_000_000, 3: default, 4: default}
    toy.guard.apply({"g": 300_000})
    toy.scheduler.default = DEFAULT
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT, 4: DEFAULT}
    assert not toy.journal.file.exists()


@pytest.mark.parametrize("earlier", [False, True], ids=["the default later", "the default earlier"])
@pytest.mark.parametrize(("run", "default"), [(0.0, SHORTEST), (0.00035, 700_000)])
def test_a_slice_of_ours_is_told_from_a_default_of_another_time(
    toy: ToyThreads, run: float, default: int, earlier: bool
) -> None:
    """The shortest slice, which is often given, is also the least default that an operator may set."""
    found, given = toy.scheduler.slices(), size(run, DEFAULT, SHORTEST, None)
    assert given is not None

    def moves() -> None:
        for now in (default, DEFAULT):
            toy.scheduler.default = now
            toy.guard.look()
            toy.guard.apply(dict.fromkeys(toy.guard._members, given))

    if earlier:
        moves()
    assert toy.guard.apply({"g": given}) == Counts(set=2)
    moves()
    assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == found
    assert not toy.journal.file.exists()


def test_a_group_that_is_not_wanted_any_more_is_put_back(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}


def test_threads_that_are_not_fair_or_gone_are_left_out(toy: ToyThreads) -> None:
    toy.scheduler.add(3, 0, policy=2)
    toy.groups["g"] += [3, 99]
    assert toy.guard.apply({"g": 300_000}) == Counts(set=2)
    assert toy.scheduler.slices()[3] == 0


def test_what_somebody_else_sets_is_left_alone(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, 777_777)
    assert toy.guard.apply({"g": 400_000}) == Counts(set=1, foreign=1)
    assert toy.guard.apply({"g": 500_000}) == Counts(set=1)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: 777_777, 2: 5_000_000}


def test_a_recycled_number_is_never_touched(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, 300_000, born=9999)  # another thread, outside of the group, with just that slice
    toy.groups["g"] = [2]
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: 300_000, 2: 5_000_000}
    toy.groups["g"] = [1, 2]
    toy.guard.apply({"g": 300_000})
    toy.scheduler.births[2] = 5
    assert toy.guard.apply({"g": 400_000}) == Counts(set=1)


def test_a_thread_that_ends_is_forgotten(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    del toy.scheduler.births[1]
    assert toy.guard.apply({"g": 400_000}) == Counts(set=1)
    del toy.scheduler.births[2]
    assert toy.guard.restore() == []
    assert not toy.journal.file.exists()


def test_what_somebody_else_has_set_is_left_alone_the_next_time_too(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, 777_777)
    toy.guard.apply({"g": 400_000})
    for _ in range(2):
        assert toy.guard.apply({}) == Counts()
    assert toy.guard.apply({"g": 300_000}) == Counts(set=1)
    assert toy.scheduler.slices() == {1: 777_777, 2: 300_000}


def test_what_somebody_else_has_set_stays_theirs_also_where_only_the_release_sees_it(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, 777_777)
    assert toy.guard.apply({}) == Counts()
    assert toy.guard.apply({"g": 300_000}) == Counts(set=1)
    assert toy.scheduler.slices() == {1: 777_777, 2: 300_000}


def test_a_foreign_thread_is_forgotten_when_it_ends_and_not_when_it_moves(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, 777_777)
    toy.guard.apply({})
    toy.groups = {"g": [2], "h": [1]}
    toy.guard.apply({})
    assert toy.guard.apply({"g": 300_000, "h": 300_000}) == Counts(set=1)
    toy.guard.apply({})
    assert toy.scheduler.slices() == {1: 777_777, 2: 5_000_000}
    toy.groups, toy.scheduler.births[1] = {"g": [2]}, 9999  # its number is another thread's, somewhere else
    toy.guard.apply({})
    assert (toy.guard._members, toy.guard._writer.held(), toy.guard._writer._foreign) == ({}, {}, {})


def test_a_thread_whose_original_somebody_else_has_put_back_is_held_for_a_while_only(toy: ToyThreads) -> None:
    now = 0.0
    toy.guard._writer._clock = lambda: now
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, DEFAULT)
    toy.guard.apply({"g": 400_000})
    toy.guard.apply({})
    assert toy.guard._writer.holds(1)
    now += PAUSE
    toy.guard.apply({})
    assert toy.guard._writer.holds(1)
    now += CALM * PAUSE
    toy.guard.apply({})
    assert (toy.guard._members, toy.guard._writer.held()) == ({}, {})


def test_one_that_cannot_be_restored_is_tried_again_and_stays_in_the_journal(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.groups["g"].append(3)
    toy.scheduler.add(3, 300_000)  # made by one of them
    toy.scheduler.broken = {1, 3}
    for _ in range(2):
        stuck = toy.guard.apply({}).stuck
        assert stuck is not None
        assert stuck.message.startswith("thread 1: not permitted; it has a slice of 300000 ns")
    assert {entry.place for entry in toy.journal.load().entries} == {1, 3}
    assert toy.scheduler.slices() == {1: 300_000, 2: 5_000_000, 3: 300_000}
    toy.scheduler.broken = set()
    assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT}
    assert toy.guard._members == {}


def test_what_a_daemon_before_could_not_restore_is_gone_on_with(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    entries = toy.journal.load().entries
    after = SliceGuard(toy.scheduler, toy.journal, toy.list, DEFAULT)
    after.go_on(entries)
    after.apply({"g": 400_000})
    assert {(entry.place, entry.original) for entry in toy.journal.load().entries} == {(1, 0), (2, 5_000_000)}
    after.apply({})
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}


def test_a_journal_that_cannot_be_written_at_the_end_is_a_failure_and_the_slices_are_back(
    toy: ToyThreads, tmp_path: Path
) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.broken = {2}
    (tmp_path / "slices.new").mkdir()
    failures = toy.guard.restore()
    assert [one.path for one in failures] == ["g", str(toy.journal.file)]
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 300_000}


def test_one_that_fails_does_not_stop_the_others_and_is_kept_for_later(toy: ToyThreads) -> None:
    toy.scheduler.broken = {1}
    counts = toy.guard.apply({"g": 300_000})
    assert (counts.set, counts.failed, counts.problem) == (1, 1, "thread 1: not permitted")
    toy.scheduler.broken = set()
    toy.guard.apply({"g": 400_000})
    toy.scheduler.broken = {1}
    (outcome,) = toy.guard.restore()
    values = f"it has a slice of 400000 ns, and should have a slice of {DEFAULT} ns"
    assert (outcome.path, outcome.message) == ("g", f"thread 1: not permitted; {values}")
    assert [entry.place for entry in toy.journal.load().entries] == [1]
    toy.scheduler.broken = set()
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}


def test_without_a_journal_nothing_is_set(toy: ToyThreads, tmp_path: Path) -> None:
    (tmp_path / "slices.new").mkdir()  # no file can be written there
    counts = toy.guard.apply({"g": 300_000})
    assert "no slice is set without it" in str(counts.problem)
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}
    (tmp_path / "slices.new").rmdir()
    assert toy.guard.apply({"g": 300_000}) == Counts(set=2)


def test_after_a_crash_the_journal_puts_back_threads_and_what_they_have_made_since(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.groups["g"] += [3, 4, 5, 99]
    toy.scheduler.add(3, 300_000)
    toy.scheduler.add(4, 600_000)
    toy.scheduler.add(5, 5_000_000)  # made by thread 2, before its slice was set
    entries = toy.journal.load().entries
    assert restore_threads(toy.scheduler, toy.list, entries, DEFAULT)[1] == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT, 4: 600_000, 5: 5_000_000}


@pytest.fixture
def nested(toy: ToyThreads) -> ToyThreads:
    """Two components, of which one has its group within the other's: its thread is listed for both."""
    toy.groups = {"g": [1, 2], "g/h": [2]}
    return toy


def test_a_thread_of_a_group_within_another_has_the_slice_of_the_innermost(nested: ToyThreads) -> None:
    for wanted in ({"g": 300_000, "g/h": 700_000}, {"g/h": 700_000, "g": 300_000}):
        nested.guard.apply(wanted)
        assert nested.scheduler.slices() == {1: 300_000, 2: 700_000}
    assert nested.guard.apply({"g": 300_000, "g/h": 700_000}) == Counts()
    assert nested.guard.restore() == []
    assert nested.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}
    assert not nested.journal.file.exists()


@pytest.mark.parametrize("slice_of_g", [300_000, 700_000, 5_000_000])
def test_a_thread_goes_on_in_the_outer_group_and_its_original_stays(nested: ToyThreads, slice_of_g: int) -> None:
    both, outer, inner = {"g": slice_of_g, "g/h": 700_000}, {"g": slice_of_g}, {"g/h": 700_000}
    for wanted, expected in (
        (both, {1: slice_of_g, 2: 700_000}),
        (outer, {1: slice_of_g, 2: slice_of_g}),
        (both, {1: slice_of_g, 2: 700_000}),
        (inner, {1: DEFAULT, 2: 700_000}),
        (both, {1: slice_of_g, 2: 700_000}),
        ({}, {1: DEFAULT, 2: 5_000_000}),
    ):
        nested.guard.apply(wanted)
        assert nested.scheduler.slices() == expected
    assert nested.guard.restore() == []


def test_at_the_end_no_thread_of_a_group_within_another_is_taken_for_an_heir_of_the_outer_one(
    nested: ToyThreads,
) -> None:
    nested.guard.apply({"g": 5_000_000, "g/h": 700_000})  # the outer group's slice is the inner thread's original
    assert nested.guard.restore() == []
    assert nested.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}


def test_a_thread_that_moves_to_another_group_keeps_its_original(toy: ToyThreads) -> None:
    toy.groups = {"g": [1], "h": [2]}
    wanted = {"g": 300_000, "h": 700_000}
    toy.guard.apply(wanted)
    toy.groups = {"g": [], "h": [1, 2]}
    assert toy.guard.apply(wanted) == Counts(set=1)
    toy.groups = {"g": [2, 1], "h": [2, 1]}  # it moved again while groups were listed
    toy.guard.apply(wanted)
    del toy.scheduler.births[1]
    toy.groups = {"g": [1], "h": [2]}
    toy.guard.apply(wanted)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices()[2] == 5_000_000
    assert not toy.journal.file.exists()


def test_after_a_crash_a_thread_of_a_group_within_another_has_its_own_original(nested: ToyThreads) -> None:
    nested.scheduler.add(2, 300_000)  # as long as the outer group's slice, by chance
    nested.guard.apply({"g": 300_000, "g/h": 700_000})
    assert restore_threads(nested.scheduler, nested.list, nested.journal.load().entries, DEFAULT)[1] == []
    assert nested.scheduler.slices() == {1: DEFAULT, 2: 300_000}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.integers(1, 6), st.integers(100_000, 9_000_000), max_size=6),
    st.lists(st.dictionaries(st.sampled_from(["g", "h", "h/i"]), st.integers(100_000, 2_000_000)), max_size=6),
)
def test_restore_is_identity(tmp_path: Path, found: dict[int, int], rounds: list[dict[str, int]]) -> None:
    toy = ToyThreads(tmp_path)
    toy.groups = {"g": [tid for tid in found if tid % 2], "h": [tid for tid in found if not tid % 2]}
    toy.groups["h/i"] = toy.groups["h"][1:]
    for tid, value in found.items():
        toy.scheduler.add(tid, value)
    for wanted in rounds:
        toy.guard.apply(wanted)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == found


# ---- the kernel itself


def test_real_threads_keep_all_but_their_slice(kernel: tuple[Kernel, int], tmp_path: Path) -> None:
    calls, default = kernel
    with child() as process:
        main = process.pid
        os.setpriority(os.PRIO_PROCESS, main, 3)
        os.sched_setscheduler(main, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        before = {tid: calls.read(tid) for tid in tids(process)}
        assert before[main] == Attributes(os.SCHED_BATCH, eevdf.RESET_ON_FORK, 3, default)
        guard = SliceGuard(calls, Journal(tmp_path, name=NAME), lambda _: tids(process), default)
        assert guard.apply({"g": 300_000}).set == 2
        assert calls.read(main) == Attributes(os.SCHED_BATCH, eevdf.RESET_ON_FORK, 3, 300_000)
        grow(process)
        guard.apply({"g": 300_000})
        assert {calls.read(tid).slice for tid in tids(process)} == {300_000}
        grow(process)  # this one the guard never sees before the end
        assert guard.restore() == []
        after = {tid: calls.read(tid) for tid in tids(process)}
        assert {tid: after[tid] for tid in before} == before
        assert {one.slice for one in after.values()} == {default}
