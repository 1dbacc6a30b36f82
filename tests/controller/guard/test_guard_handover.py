"""What the guard hands over and gives up: to the next daemon, group by group, and to others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_host import Host

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Result
from qioi.controller.levers.files import Files
from qioi.controller.levers.lever import Identity
from qioi.kernel.errors import CgroupError


def test_what_is_held_and_what_is_changed(host: Host, journal: Journal) -> None:
    a, b = host.make("a"), host.make("b")
    guard = host.guard(journal)
    guard.hold(a)
    guard.hold(b)
    assert (guard.holds(a), guard.holds("nothing")) == (True, False)
    assert guard.changed() == ()
    guard.apply({a: 4096})
    assert guard.changed() == (a,)
    assert guard.raised() == {a}
    assert guard.raw(a, 4096) == host.get(a)
    assert guard.last(b) == guard.shares(b) == guard.last(b)
    host.set(a, 9000)
    guard.apply({a: 8192})
    assert guard.shares(a) > guard.found(a)
    assert guard.raised() == set()  # it is somebody else who has raised it
    guard.restore()


def test_what_was_only_looked_at_is_not_kept_for_the_next_daemon(host: Host, journal: Journal) -> None:
    a, b = host.make("a"), host.make("b")
    guard = host.guard(journal)
    guard.hold(a)
    guard.hold(b)
    guard.apply({a: 4096})
    guard.keep()
    assert [entry.path for entry in journal.load().entries] == [a]
    guard.restore()


def test_a_group_that_was_made_anew_is_met_anew(host: Host, journal: Journal) -> None:
    path = host.make("a", 500)
    guard = host.guard(journal)
    guard.hold(path)
    guard.apply({path: 4096})
    # Removed, it might leave its inode to the next one: a folder of files recycles them, the kernel does not.
    folder = host.hierarchy.folder(path)
    folder.rename(folder.with_name("former"))
    host.make("a", 700)
    assert guard.look(path) == guard.found(path)
    (outcome,) = guard.apply({path: 2 * guard.found(path)})
    assert (outcome.result, host.get(path)) == (Result.OK, 1400)
    guard.restore()
    assert host.get(path) == 700


def test_what_somebody_sets_before_we_do_is_the_original(host: Host, journal: Journal) -> None:
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    host.set(path, 500)
    guard.shares(path)
    guard.apply({path: 2 * guard.found(path)})
    assert host.get(path) == 1000
    guard.restore()
    assert host.get(path) == 500


def test_released_alone_the_others_stay(host: Host, journal: Journal) -> None:
    a, b = host.make("a", 500), host.make("b", 500)
    guard = host.guard(journal)
    for path in (a, b):
        guard.hold(path)
    guard.apply({a: 4096, b: 4096})
    raised = host.get(b)
    outcome = guard.release(a)
    assert outcome is not None
    assert (outcome.result, host.get(a), host.get(b)) == (Result.OK, 500, raised)
    assert guard.release(a) is None
    assert not guard.holds(a)
    host.set(b, 777)
    outcome = guard.release(b)
    assert outcome is not None
    assert (outcome.result, host.get(b)) == (Result.FOREIGN, 777)


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_a_release_that_fails_keeps_the_group(host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    path = host.make("a", 500)
    guard = host.guard(journal)
    guard.hold(path)
    guard.apply({path: 4096})

    def refuse(self: Files, path: str, value: int, identity: Identity) -> None:
        raise CgroupError("no")

    with monkeypatch.context() as patch:
        patch.setattr(Files, "write", refuse)
        outcome = guard.release(path)
        assert outcome is not None
        assert (outcome.result, guard.holds(path)) == (Result.FAILED, True)
    guard.restore()
    assert host.get(path) == 500


def test_kept_for_the_next_daemon_which_knows_the_originals(host: Host, journal: Journal) -> None:
    a, b = host.make("a", 500), host.make("b", 500)
    before = host.guard(journal)
    for path in (a, b):
        before.hold(path)
    before.apply({a: 4096, b: 4096})
    before.keep()
    raised = host.get(a)
    host.set(b, 777)  # somebody else, while no daemon runs
    entries = {entry.path: entry for entry in journal.load().entries}
    after = host.guard(journal)
    assert (after.adopt(entries[a]), after.adopt(entries[b])) == (True, False)
    assert (after.changed(), host.get(a)) == ((a,), raised)
    after.restore()
    assert (host.get(a), host.get(b)) == (500, 777)


def kept(host: Host, journal: Journal) -> tuple[str, Entry]:
    """Have a daemon leave a group that it found with 500 raised on purpose; give what the journal says of it."""
    path = host.make("a", 500)
    before = host.guard(journal)
    before.hold(path)
    before.apply({path: 4096})
    before.keep()
    (entry,) = journal.load().entries
    return path, entry


def test_a_kept_group_that_is_gone_is_not_gone_on_with(host: Host, journal: Journal) -> None:
    path, entry = kept(host, journal)
    host.remove(path)
    assert host.guard(journal).adopt(entry) is False


def test_a_group_that_was_made_anew_with_our_value_is_not_gone_on_with(host: Host, journal: Journal) -> None:
    """Whoever made it wants that value: it may be what an engine has on its record."""
    path, entry = kept(host, journal)
    ours = host.get(path)
    # Removed, it might leave its inode to the next one: a folder of files recycles them, the kernel does not.
    folder = host.hierarchy.folder(path)
    folder.rename(folder.with_name("former"))
    host.make("a", ours)
    after = host.guard(journal)
    assert after.adopt(entry) is False
    assert (host.get(path), after.changed()) == (ours, ())


def test_the_value_of_another_lever_is_no_share(host: Host, journal: Journal) -> None:
    path, entry = kept(host, journal)
    after = host.guard(journal)
    assert after.adopt(replace(entry, file="cpu.idle")) is False
    assert after.changed() == ()
    host.set(path, 500)


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_the_original_of_a_kept_group_that_cannot_be_read_for_a_moment_is_not_lost(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, entry = kept(host, journal)
    after = host.guard(journal)

    def refuse(self: Files, path: str) -> int:
        raise CgroupError("no")

    with monkeypatch.context() as patch:
        patch.setattr(Files, "read", refuse)
        assert after.adopt(entry)
    after.restore()
    assert host.get(path) == 500


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(found=st.integers(1, 10_000), wishes=st.lists(st.integers(2, 262_144), max_size=6), last=st.booleans())
def test_whatever_was_set_release_and_restore_are_identity(
    host: Host, journal: Journal, found: int, wishes: list[int], last: bool
) -> None:
    path = f"{host.parent}/x"
    if not host.hierarchy.folder(path).exists():
        host.make("x")
    host.set(path, found)
    guard = host.guard(journal)
    guard.hold(path)
    for wish in wishes:
        guard.apply({path: wish})
    if last:
        guard.release(path)
    guard.restore()
    assert host.get(path) == found
