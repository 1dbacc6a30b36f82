"""The journal forgets a value as soon as it is no longer ours: a later daemon would take it for ours and restore."""

from __future__ import annotations

import errno

import pytest
from held_group import raised, results
from real_host import Host

from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Result, restore_entries
from qioi.controller.levers.shares import Shares


def ours(journal: Journal) -> list[str]:
    return [entry.path for entry in journal.load().entries if entry.ours]


def test_what_somebody_else_has_set_is_theirs_for_the_next_daemon_too(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    once_ours = host.get(path)
    host.set(path, 555)
    assert results(guard.apply({path: 8192})) == [Result.FOREIGN]
    assert ours(journal) == []
    host.set(path, once_ours)  # and the daemon dies
    assert restore_entries(Shares(host.hierarchy, host.access), journal.load().entries) == ([], [])
    assert host.get(path) == once_ours


@pytest.mark.parametrize("release", [True, False])
def test_nothing_is_ours_at_the_original(host: Host, journal: Journal, release: bool) -> None:
    guard, path = raised(host, journal)
    if release:
        guard.release(path)
    guard.apply({} if release else {path: guard.found(path)})
    assert ours(journal) == []


def test_a_write_that_somebody_else_was_faster_than_is_not_ours(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, guard, store = host.make("a"), host.guard(journal), journal.store

    def slow(*entries: object, **durable: bool) -> None:
        store(*entries, **durable)  # type: ignore[arg-type]
        host.set(path, 777)

    guard.hold(path)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "store", slow)
        assert results(guard.apply({path: 4096})) == [Result.FOREIGN]
    assert ours(journal) == []


def test_a_share_that_is_not_taken_over_is_not_ours(host: Host, journal: Journal) -> None:
    _, path = raised(host, journal)
    (entry,) = journal.load().entries
    host.set(path, 555)
    after = host.guard(journal)
    assert not after.adopt(entry)
    after.apply({})
    assert ours(journal) == []


def test_a_journal_that_cannot_be_written_is_tried_again(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, path = raised(host, journal)
    host.set(path, 555)

    def full(entries: object, *, durable: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "store", full)
        assert results(guard.apply({path: 8192})) == [Result.FOREIGN]
    assert ours(journal) == [path]
    guard.apply({})
    assert ours(journal) == []
