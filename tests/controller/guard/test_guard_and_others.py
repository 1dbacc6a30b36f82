"""Groups that somebody else writes too: whose value is left alone, and when the guard takes a group up again."""

from __future__ import annotations

import pytest
from held_group import raised, results
from real_host import Host

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Result
from qioi.controller.guard.writer import LONGEST, PAUSE


@pytest.mark.parametrize("before", [None, 2048])
def test_what_somebody_sets_while_the_journal_is_written_is_theirs(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch, before: int | None
) -> None:
    """A disk may take seconds to answer."""
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    if before is not None:
        assert results(guard.apply({path: before})) == [Result.OK]
    store = journal.store

    def slow(*entries: object, **durable: bool) -> None:
        store(*entries, **durable)  # type: ignore[arg-type]
        host.set(path, 777)

    monkeypatch.setattr(journal, "store", slow)
    assert results(guard.apply({path: 4096})) == [Result.FOREIGN]
    assert host.get(path) == 777
    monkeypatch.undo()
    assert guard.is_foreign(path) is (before is not None)  # what is found before we set anything is the original
    guard.apply({path: 2 * guard.look(path)})
    assert host.get(path) == (2 * 777 if before is None else 777)
    guard.restore()
    assert host.get(path) == 777


class Clock:
    """A monotonic clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def released(host: Host, journal: Journal, clock: Clock) -> tuple[Guard, str]:
    """A guard of which somebody else has put one group's original back."""
    path = host.make("a")
    guard = Guard(host.hierarchy, host.access, journal, clock=clock)
    guard.hold(path)
    put_back(host, guard, path)
    return guard, path


def put_back(host: Host, guard: Guard, path: str) -> str:
    """Have a share raised, and its original written by somebody else; give what is said of it."""
    original = host.get(path)
    assert results(guard.apply({path: 4096})) == [Result.OK]
    host.set(path, original)
    (outcome,) = guard.apply({path: 8192})
    assert (outcome.result, host.get(path)) == (Result.FOREIGN, original)
    return outcome.message


def test_who_writes_the_original_back_has_released_it_and_it_is_raised_again_after_a_pause(
    host: Host, journal: Journal, clock: Clock
) -> None:
    """Configuration management does, every half hour: the component must not stay unprotected for that."""
    guard, path = released(host, journal, clock)
    assert (guard.is_foreign(path), guard.pause(path)) == (True, PAUSE)
    clock.now += PAUSE - 1
    assert results(guard.apply({path: 8192})) == [Result.FOREIGN]
    assert guard.changed() == ()
    clock.now += 1
    assert (guard.is_foreign(path), guard.pause(path)) == (False, None)
    assert results(guard.apply({path: 8192})) == [Result.OK]
    guard.restore()
    assert guard.look(path) == guard.found(path)


def test_the_pause_doubles_while_it_is_put_back_again_soon_and_begins_anew_after_a_calm(
    host: Host, journal: Journal, clock: Clock
) -> None:
    guard, path = released(host, journal, clock)
    pauses = []
    for _ in range(8):
        pauses.append(guard.pause(path))
        clock.now += pauses[-1] or 0
        assert not guard.is_foreign(path)
        assert f"left alone for {min(LONGEST, 2 * (pauses[-1] or 0)):g} s" in put_back(host, guard, path)
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    clock.now += 10 * LONGEST
    assert not guard.is_foreign(path)
    assert "left alone for 60 s" in put_back(host, guard, path)


def test_what_is_set_during_the_pause_is_what_was_found(host: Host, journal: Journal, clock: Clock) -> None:
    guard, path = released(host, journal, clock)
    host.set(path, 777)
    clock.now += PAUSE
    assert not guard.is_foreign(path)
    guard.apply({path: 2 * guard.look(path)})
    assert host.get(path) == 2 * 777
    guard.restore()
    assert host.get(path) == 777


def test_another_value_is_left_alone_for_good_until_the_original_is_back(
    host: Host, journal: Journal, clock: Clock
) -> None:
    guard, path = raised(host, journal)
    guard._clock = clock
    original = guard.raw(path, guard.found(path))
    host.set(path, 777)
    assert results(guard.apply({path: 2048})) == [Result.FOREIGN]
    clock.now += 100 * LONGEST
    guard.look(path)
    assert (guard.is_foreign(path), guard.pause(path)) == (True, None)
    host.set(path, original)
    guard.look(path)
    assert (guard.is_foreign(path), guard.pause(path)) == (True, PAUSE)
    clock.now += PAUSE
    assert results(guard.apply({path: 2048})) == [Result.OK]


def test_what_somebody_else_has_set_is_taken_up_again_as_it_is(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    host.set(path, 777)
    guard.apply({path: 2048})
    guard.take_up(path)
    assert not guard.is_foreign(path)
    assert results(guard.apply({path: 2 * guard.look(path)})) == [Result.OK]
    guard.restore()
    assert host.get(path) == 777


@pytest.mark.parametrize("seen", [True, False])
def test_a_group_that_somebody_else_has_set_stays_theirs_when_it_is_released(
    host: Host, journal: Journal, seen: bool
) -> None:
    guard, path = raised(host, journal)
    host.set(path, 777)
    if seen:
        assert results(guard.apply({path: 2048})) == [Result.FOREIGN]
    for _ in range(2):
        guard.release(path)
        assert not guard.leave(path)
        guard.hold(path)
        assert results(guard.apply({path: 8192})) == [Result.FOREIGN]
        assert (host.get(path), guard.changed()) == (777, ())
    assert guard.restore() == []
    assert host.get(path) == 777


def test_a_group_that_is_raised_again_after_a_pause_and_released_is_nobodys(
    host: Host, journal: Journal, clock: Clock
) -> None:
    """Its original is there because we have put it back: that is no reason for a pause."""
    guard, path = released(host, journal, clock)
    clock.now += PAUSE
    for _ in range(3):
        assert results(guard.apply({path: 8192})) == [Result.OK]
        released_now = guard.release(path)
        assert (released_now and released_now.result, guard.changed(), guard.raised()) == (Result.OK, (), frozenset())
        guard.hold(path)
        assert (guard.is_foreign(path), guard.pause(path)) == (False, None)


def test_a_pause_goes_on_when_the_group_is_released(host: Host, journal: Journal, clock: Clock) -> None:
    guard, path = released(host, journal, clock)
    assert guard.release(path) is None
    assert not guard.leave(path)
    assert results(guard.apply({path: 8192})) == [Result.FOREIGN]
    clock.now += PAUSE
    assert not guard.leave(path)
    assert f"left alone for {2 * PAUSE:g} s" in put_back(host, guard, path)
    clock.now += 100 * PAUSE
    guard.release(path)
    assert not guard.holds(path)
