"""`on_exit: keep`, from the stop of one daemon to the start of the next."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from real_host import Host
from refusing import read_only
from waiting import PATIENCE

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.handover import keep, mark, take_over, unmark
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.owners import Nobody
from qioi.controller.guard.restore import Result
from qioi.controller.levers.lever import GroupId
from qioi.model.owner import Owner

FOUND = 500


@pytest.fixture
def state(journal: Journal) -> Path:
    return journal.file.parent


def raised(host: Host, journal: Journal, *names: str) -> tuple[Guard, list[str]]:
    """A guard, and groups that it has found with 500 and raised."""
    guard, paths = host.guard(journal), [host.make(name, FOUND) for name in names]
    for path in paths:
        guard.hold(path)
    guard.apply(dict.fromkeys(paths, 4096))
    return guard, paths


def test_what_is_watched_goes_on_and_the_rest_is_restored(host: Host, journal: Journal, state: Path) -> None:
    before, (watched, left) = raised(host, journal, "watched", "left")
    keep(state, before, None)
    ours = host.get(watched)
    assert (ours > FOUND, host.get(left), mark(state).exists()) == (True, ours, True)
    after = host.guard(journal)
    outcomes = take_over(state, after, {watched})
    assert outcomes is not None
    assert [(one.path, one.result) for one in outcomes] == [(left, Result.OK)]
    assert (host.get(watched), host.get(left), after.changed()) == (ours, FOUND, (watched,))
    assert not mark(state).exists()  # a daemon that crashes from now on has kept nothing on purpose
    after.restore()
    assert host.get(watched) == FOUND


def test_the_daemons_own_group_is_not_handed_over(host: Host, journal: Journal, state: Path) -> None:
    guard, (peer, own) = raised(host, journal, "peer", "own")
    keep(state, guard, own)
    assert (host.get(peer) > FOUND, host.get(own)) == (True, FOUND)
    assert [entry.path for entry in journal.load().entries] == [peer]
    guard.restore()


def test_where_nothing_was_changed_nothing_is_marked(host: Host, journal: Journal, state: Path) -> None:
    guard = host.guard(journal)
    guard.hold(host.make("a"))
    keep(state, guard, None)
    assert list(state.iterdir()) == []


def test_what_a_crash_left_is_the_callers_to_restore(host: Host, journal: Journal, state: Path) -> None:
    before, (path,) = raised(host, journal, "a")
    ours = host.get(path)
    after = host.guard(journal)
    assert take_over(state, after, {path}) is None
    assert (host.get(path), after.changed()) == (ours, ())
    before.restore()


@pytest.mark.parametrize("how", ["a damaged line", "no file"])
def test_by_a_journal_that_cannot_be_read_nothing_is_taken_over(
    host: Host, journal: Journal, state: Path, how: str
) -> None:
    before, (watched, left) = raised(host, journal, "watched", "left")
    keep(state, before, None)
    first, *others = journal.file.read_bytes().splitlines(keepends=True)
    journal.file.unlink()
    if how == "no file":
        journal.file.mkdir()
    else:
        journal.file.write_bytes(b"".join([first, *others[:-1], others[-1][:-5]]))
    ours, after = host.get(watched), host.guard(journal)
    assert take_over(state, after, {watched}) is None
    assert (host.get(watched), host.get(left), after.changed()) == (ours, ours, ())
    assert not mark(state).exists()


def test_a_mark_that_cannot_be_removed_is_said_and_the_shares_are_taken_over(
    host: Host, journal: Journal, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, (watched, left) = raised(host, journal, "watched", "left")
    keep(state, before, None)
    ours, after = host.get(watched), host.guard(journal)
    with read_only(mark(state)):  # its name is the place of a mount, which the kernel keeps
        outcomes = take_over(state, after, {watched})
    assert outcomes is not None
    assert [(one.path, one.result) for one in outcomes] == [(left, Result.OK)]
    assert (host.get(watched), host.get(left), after.changed()) == (ours, FOUND, (watched,))
    assert caplog.messages == [
        f"{mark(state)}: Device or resource busy: it stays, and says of a crash, too, that shares were kept on purpose"
    ]
    after.restore()


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("leads_to", ["a FIFO", "nothing"])
def test_a_link_in_the_place_of_the_mark_is_not_followed(
    host: Host, journal: Journal, state: Path, leads_to: str
) -> None:
    """Whoever owns the state folder could have root make any file."""
    guard, (path,) = raised(host, journal, "a")
    target = state.parent / "target"
    if leads_to == "a FIFO":
        os.mkfifo(target)
    mark(state).symlink_to(target)
    keep(state, guard, None)
    assert (mark(state).is_symlink(), target.is_fifo(), target.exists()) == (False, *2 * (leads_to == "a FIFO",))
    assert mark(state).exists()
    guard.restore()
    assert host.get(path) == FOUND


def test_no_mark_of_a_read_only_state_folder_is_said_to_stay(state: Path) -> None:
    with read_only(state):
        assert unmark(state) is None


@pytest.mark.parametrize("owner", [None, Owner("c0ffee", "container")])
@pytest.mark.parametrize("discovers", [True, False])
def test_a_group_that_is_not_listed_waits_for_discovery(
    host: Host, journal: Journal, state: Path, discovers: bool, owner: Owner | None
) -> None:
    before, (path,) = raised(host, journal, "a")
    keep(state, before, None)
    (entry,) = journal.load().entries
    journal.store([replace(entry, owner=owner)])
    ours, after = host.get(path), host.guard(journal)
    outcomes = take_over(state, after, None if discovers else ())
    assert outcomes is not None
    assert [one.path for one in outcomes] == ([] if discovers else [path])
    assert host.get(path) == (ours if discovers else FOUND)
    after.restore()
    assert host.get(path) == FOUND


def test_what_owners_have_on_record_is_not_gone_on_with_by_who_tells_none(
    host: Host, journal: Journal, state: Path
) -> None:
    before, (path,) = raised(host, journal, "a")
    keep(state, before, None)
    (entry,) = journal.load().entries
    journal.store([replace(entry, owner=Owner("c0ffee", "container"))])
    assert take_over(state, Guard(host.hierarchy, host.access, journal, Nobody()), {path}) is None
    before.restore()


def test_what_an_owner_has_on_record_stays_in_the_journal_of_who_tells_none(
    host: Host, journal: Journal, state: Path
) -> None:
    """The group is put back, and its owner would write the raised share again."""
    before, (path, gone) = raised(host, journal, "a", "b")
    keep(state, before, None)
    left = [replace(one, owner=Owner("c0ffee", one.path)) for one in journal.load().entries]
    host.remove(gone)
    after = Guard(host.hierarchy, host.access, journal, Nobody())
    for entry in left:
        after.adopt(entry)
    after.record()
    assert {one.path for one in journal.load().entries} == {path, gone}
    outcomes = after.restore()
    assert host.get(path) == FOUND
    assert all("not put back yet: this daemon tells no owner" in one.message for one in outcomes)
    assert {one.path for one in journal.load().entries} == {path, gone}


def test_without_an_owner_there_is_no_record() -> None:
    nobody = Nobody()
    nobody.release(Entry("a", "cpu.shares", GroupId(1, 2), FOUND, (4096,)))
    assert (nobody.settle(), nobody.kept(None)) == ({}, ())
