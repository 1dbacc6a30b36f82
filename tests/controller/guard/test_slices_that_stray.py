"""Threads that left their group with a slice that QiOi set, and threads that inherited one, get it taken back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_scheduler import DEFAULT
from toy_threads import ToyThreads

from qioi.controller.guard.restore import Result
from qioi.controller.guard.thread_slices import GIVEN, PASSES, Counts, SliceGuard, last, restore_threads
from qioi.controller.levers.eevdf import Attributes

UNLISTED = "its threads cannot be listed (Too many open files): new ones may have inherited a slice"
ENDLESS = "its threads make new ones faster than these are restored: some may have inherited a slice"


def test_a_thread_that_moved_out_of_the_group_is_restored(toy: ToyThreads) -> None:
    """As by `echo PID > .../cgroup.procs`."""
    toy.guard.apply({"g": 300_000})
    toy.groups["g"] = [2]
    assert toy.guard.apply({"g": 300_000}) == Counts()
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 300_000}
    assert [entry.place for entry in toy.journal.load().entries] == [2]
    toy.groups["g"] = [1, 2]
    assert toy.guard.apply({"g": 300_000}) == Counts(set=1)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}


def test_one_that_moved_out_and_cannot_be_restored_is_tried_again(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.groups["g"], toy.scheduler.broken = [2], {1}
    for value in (300_000, 400_000):
        stuck = toy.guard.apply({"g": value}).stuck
        assert stuck is not None
        assert stuck.message.startswith("thread 1: not permitted; it has a slice of 300000 ns")
    assert {entry.place for entry in toy.journal.load().entries} == {1, 2}
    toy.scheduler.broken = set()
    assert toy.guard.apply({"g": 400_000}) == Counts()
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 400_000}


def test_what_somebody_else_has_set_stays_where_it_moved_to(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, 777_777)
    toy.groups["g"] = [2]
    for _ in range(2):
        assert toy.guard.apply({"g": 300_000}) == Counts()
    assert (toy.scheduler.slices(), toy.guard._writer.is_foreign(1)) == ({1: 777_777, 2: 300_000}, True)
    del toy.scheduler.births[1]
    toy.guard.apply({"g": 300_000})
    assert not toy.guard._writer.holds(1)


def test_an_heir_is_known_when_all_that_it_may_have_it_from_have_ended(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.join(3, 300_000)
    toy.end(1, 2)
    assert toy.guard.apply({"g": 300_000}) == Counts()
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {3: DEFAULT}


def test_an_heir_of_a_former_slice_is_known(toy: ToyThreads) -> None:
    """It was born after the group was listed, and before the slice of its parent was changed."""
    toy.guard.apply({"g": 300_000})
    toy.guard.apply({"g": 400_000})
    toy.join(3, 300_000)
    assert toy.guard.apply({"g": 400_000}) == Counts(set=1)
    toy.join(4, 300_000)
    assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT, 4: DEFAULT}


@pytest.mark.parametrize("crash", [False, True])
def test_heirs_of_an_heir_that_is_being_restored_are_restored(
    toy: ToyThreads, crash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.guard.apply({"g": 300_000})
    toy.join(3, 300_000)
    write = toy.scheduler.write

    def slow(tid: int, attributes: Attributes) -> None:
        if tid in (3, 4) and tid + 1 not in toy.scheduler.threads:
            toy.join(tid + 1, 300_000)
        write(tid, attributes)

    monkeypatch.setattr(toy.scheduler, "write", slow)
    if crash:
        assert restore_threads(toy.scheduler, toy.list, toy.journal.load().entries, DEFAULT)[1] == []
    else:
        assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT, 4: DEFAULT, 5: DEFAULT}


def forks_within(toy: ToyThreads, group: str, most: int) -> None:
    """Have a thread begin in a group, with a slice of 300 us, whenever any group is listed, and ``most`` of them."""
    begin = toy.list

    def forking(listed: str) -> list[int]:
        if (tid := 100 + len(toy.groups[group])) < 100 + most:
            toy.scheduler.add(tid, 300_000)
            for one in {"g", group}:
                toy.groups[one] = [*toy.groups[one], tid]
        return begin(listed)

    toy.guard._threads = forking


def test_new_threads_of_a_wanted_group_below_are_no_heirs(toy: ToyThreads) -> None:
    toy.groups = {"g": [1, 2], "g/h": [2]}
    toy.guard.apply({"g": 300_000, "g/h": 300_000})
    forks_within(toy, "g/h", 500)
    toy.guard.apply({"g/h": 300_000})
    assert toy.scheduler.slices() == {1: DEFAULT} | dict.fromkeys(toy.groups["g/h"], 300_000)
    toy.guard._threads = toy.list
    assert toy.guard.apply({}) == Counts()
    assert set(toy.scheduler.slices().values()) == {DEFAULT, 5_000_000}


@pytest.mark.parametrize("crash", [False, True])
def test_heirs_that_come_faster_than_they_are_restored_are_looked_for_again(toy: ToyThreads, crash: bool) -> None:
    toy.guard.apply({"g": 300_000})
    entries = toy.journal.load().entries
    forks_within(toy, "g", 500)
    if crash:
        outcomes, left = restore_threads(toy.scheduler, toy.guard._threads, entries, DEFAULT)
        assert ([one.message for one in outcomes][-1], {one.place for one in left}) == (ENDLESS, {1, 2})
    else:
        stuck = toy.guard.apply({}).stuck
        assert stuck is not None
        assert stuck.message == ENDLESS
        assert {one.place for one in toy.journal.load().entries} == {1, 2}
    assert len(toy.groups["g"]) == 2 + PASSES
    forks_within(toy, "g", 0)
    if crash:
        assert restore_threads(toy.scheduler, toy.list, left, DEFAULT)[1] == []
    else:
        assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == dict.fromkeys(toy.groups["g"], DEFAULT) | {2: 5_000_000}


def test_slices_of_long_ago_are_forgotten(toy: ToyThreads) -> None:
    for value in range(300_000, 300_000 + 2 * GIVEN):
        toy.guard.apply({"g": value})
    toy.join(3, 300_000)
    toy.join(4, 300_000 + GIVEN)
    toy.guard.apply({})
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: 300_000, 4: DEFAULT}


@given(st.lists(st.integers(1, 2 * GIVEN)))
def test_the_last_slices_are_kept_in_order(values: list[int]) -> None:
    kept: tuple[int, ...] = ()
    for value in values:
        kept = last((*kept, value))
    once = sorted(set(values), key=lambda value: values[::-1].index(value))[:GIVEN]
    assert kept == tuple(once[::-1])


def test_a_group_that_cannot_be_listed_for_a_moment_has_the_threads_that_are_known(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.join(3, 300_000)
    toy.unlisted = {"g", "h"}
    assert toy.guard.apply({"g": 400_000, "h": 300_000}) == Counts(set=2)
    toy.unlisted = set()
    assert toy.guard.apply({"g": 400_000}) == Counts(set=1)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT}


def test_a_group_that_cannot_be_listed_when_it_is_released_is_looked_at_again(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.join(3, 300_000)
    toy.scheduler.broken, toy.unlisted = {2}, {"g"}
    for failure in ("thread 2: not permitted", UNLISTED):
        stuck = toy.guard.apply({}).stuck
        assert stuck is not None
        assert stuck.message.startswith(failure)
        toy.scheduler.broken = set()
    toy.unlisted = set()
    assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT}
    assert (toy.guard._members, toy.guard._given) == ({}, {})


def test_at_the_end_a_group_that_cannot_be_listed_is_said(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.guard.apply({"g": 400_000})
    toy.join(3, 300_000)
    toy.unlisted = {"g"}
    (failure,) = toy.guard.restore()
    assert (failure.path, failure.message) == ("g", UNLISTED)
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: 300_000}
    toy.end(1)
    toy.unlisted = set()
    assert restore_threads(toy.scheduler, toy.list, toy.journal.load().entries, DEFAULT)[1] == []
    assert toy.scheduler.slices() == {2: 5_000_000, 3: DEFAULT}


def test_a_daemon_that_dies_before_it_could_list_a_released_group_leaves_it_in_the_journal(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    toy.join(3, 300_000)
    toy.end(1, 2)
    toy.unlisted = {"g"}
    for _ in range(2):
        toy.guard.apply({})
    entries = toy.journal.load().entries
    assert {entry.ours for entry in entries} == {(300_000, 0), (300_000, 5_000_000)}
    toy.unlisted = set()
    assert restore_threads(toy.scheduler, toy.list, entries, DEFAULT)[1] == []
    assert toy.scheduler.slices() == {3: DEFAULT}


@pytest.mark.parametrize("value", [300_000, 400_000])
@pytest.mark.parametrize("crash", [False, True])
def test_threads_of_a_group_that_could_not_be_listed_are_set_again(toy: ToyThreads, value: int, crash: bool) -> None:
    toy.guard.apply({"g": 300_000})
    toy.unlisted = {"g"}
    if crash:
        left = restore_threads(toy.scheduler, toy.list, toy.journal.load().entries, DEFAULT)[1]
        toy.guard = SliceGuard(toy.scheduler, toy.journal, toy.list, DEFAULT)
        toy.guard.go_on(left)
    else:
        toy.guard.apply({})
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}
    assert toy.guard.apply({"g": value}) == Counts(set=2)
    assert toy.scheduler.slices() == {1: value, 2: value}
    toy.unlisted = set()
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}
    assert not toy.journal.file.exists()


def test_after_a_crash_the_journal_keeps_a_group_until_it_can_be_listed(toy: ToyThreads) -> None:
    toy.guard.apply({"g": 300_000})
    entries = toy.journal.load().entries
    toy.join(3, 300_000)
    toy.scheduler.broken, toy.unlisted = {1}, {"g"}
    outcomes, left = restore_threads(toy.scheduler, toy.list, entries, DEFAULT)
    assert {entry.place for entry in left} == {1, 2}
    assert [one.message for one in outcomes if one.result is Result.FAILED][-1] == UNLISTED
    toy.scheduler.broken, toy.unlisted = set(), set()
    assert restore_threads(toy.scheduler, toy.list, left, DEFAULT)[1] == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT}
