"""Groups whose owner keeps a record of its own: what it brings back is ours, and the record is put back too."""

from __future__ import annotations

import pytest
from real_host import Host
from toy_owners import OWNER, ToyOwners, raised

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Result
from qioi.controller.levers.files import Access
from qioi.controller.levers.lever import Identity
from qioi.model import Owner


def test_a_container_that_comes_back_with_our_share_keeps_its_original(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, original, ours = raised(host, journal, owners)
    host.remove(path)
    guard.drop(path)
    assert owners.asked[-1] == original
    host.make("a", ours)
    assert guard.hold(path, OWNER) == host.hierarchy.shares(original, original)
    (outcome,) = guard.restore()
    assert (outcome.result, host.get(path)) == (Result.OK, original)


def test_a_container_that_comes_back_with_somebody_elses_share_is_taken_as_it_is(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, _, ours = raised(host, journal, owners)
    host.remove(path)
    guard.drop(path)
    host.make("a", ours + 1)
    guard.hold(path, OWNER)
    guard.restore()
    assert host.get(path) == ours + 1


def test_the_end_waits_for_the_record_of_a_group_that_is_gone(host: Host, journal: Journal, owners: ToyOwners) -> None:
    guard, path, original, _ = raised(host, journal, owners)
    host.remove(path)
    guard.drop(path)
    assert owners.record != original
    guard.restore()
    assert (owners.record, owners.asked) == (original, [])


def test_a_container_that_comes_back_with_its_original_while_the_record_is_on_its_way(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, _, _ = raised(host, journal, owners)
    host.remove(path)
    guard.drop(path)
    host.make("a")
    guard.hold(path, OWNER)
    (outcome,) = guard.apply({path: 2048})
    assert outcome.result is Result.OK


def test_a_record_is_named_anew_while_nothing_of_ours_is_on_it(host: Host, journal: Journal, owners: ToyOwners) -> None:
    """The name holds what the record says without us: an edited unit's says something else."""
    guard, path = Guard(host.hierarchy, host.access, journal, owners), host.make("a")
    for name in (Owner("toy", "200"), Owner("toy", "300")):
        guard.look(path, name)
        assert guard.owners() == (name,)
    guard.apply({path: 4096})
    guard.look(path, Owner("toy", "400"))
    assert guard.owners() == (Owner("toy", "300"),)


def test_an_owner_that_writes_its_older_value_late_is_nobody_else(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, _, first = raised(host, journal, owners)
    guard.apply({path: 2048})
    host.set(path, first)
    (outcome,) = guard.apply({path: 3072})
    assert outcome.result is Result.OK
    host.set(path, first + 1)
    (outcome,) = guard.apply({path: 2048})
    assert outcome.result is Result.FOREIGN


class Overwritten:
    """Files in which an owner writes the value ``late`` once, right after the daemon has written."""

    name = "files"

    def __init__(self, access: Access) -> None:
        self.access = access
        self.late: int | None = None

    def read(self, path: str) -> int:
        return self.access.read(path)

    def write(self, path: str, value: int, identity: Identity) -> None:
        self.access.write(path, value, identity)
        if self.late is not None:
            self.access.write(path, self.late, identity)
            self.late = None


def test_an_owner_that_writes_its_older_value_between_our_write_and_our_look_is_nobody_else(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    files = Overwritten(host.access)
    guard, path = Guard(host.hierarchy, files, journal, owners), host.make("a")
    guard.hold(path, OWNER)
    guard.apply({path: 4096})
    files.late = older = host.get(path)
    (outcome,) = guard.apply({path: 2048})
    assert (outcome.result, host.get(path)) == (Result.OK, older)
    (outcome,) = guard.apply({path: 2048})
    assert outcome.result is Result.OK
    assert host.get(path) == guard.raw(path, 2048)


def test_an_owner_that_writes_the_original_before_it_was_told_is_nobody_else(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    """As systemd does at a daemon-reload that comes between our write and its new record."""
    guard, path, original, _ = raised(host, journal, owners)
    host.set(path, original)
    assert guard.shares(path) == guard.found(path)
    (outcome,) = guard.apply({path: 4096})
    assert outcome.result is Result.OK
    owners.done()
    host.set(path, original)
    (outcome,) = guard.apply({path: 4096})
    assert outcome.result is Result.FOREIGN


def test_an_owner_that_is_told_of_late_is_told_from_then_on(host: Host, journal: Journal, owners: ToyOwners) -> None:
    """As a container first seen in the middle of a resize, when it can't be told how its weight was made."""
    guard = Guard(host.hierarchy, host.access, journal, owners)
    path = host.make("a")
    guard.hold(path)
    guard.hold(path, OWNER)
    assert (guard.owners(), owners.asked) == ((OWNER,), [])
    guard.hold(path)  # what is known is not forgotten
    guard.apply({path: 4096})
    assert owners.asked == [host.get(path)]


def held_late(host: Host, journal: Journal, owners: ToyOwners) -> tuple[Guard, str, int]:
    """A group that was raised before its owner is known, and its original."""
    guard = Guard(host.hierarchy, host.access, journal, owners)
    path = host.make("a")
    original = host.get(path)
    guard.hold(path)
    guard.apply({path: 4096})
    return guard, path, original


def test_what_is_in_force_when_an_owner_is_told_of_goes_on_its_record(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, original = held_late(host, journal, owners)
    guard.hold(path, OWNER)
    assert owners.asked == [host.get(path)]
    assert [(one.owner, one.original) for one in journal.load().entries] == [(OWNER, original)]
    guard.restore()
    assert (host.get(path), owners.record) == (original, original)


def test_what_somebody_else_has_set_meanwhile_goes_on_no_record(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, _ = held_late(host, journal, owners)
    host.set(path, host.get(path) + 1)
    guard.hold(path, OWNER)
    guard.apply({path: 2048})
    assert guard.is_foreign(path)
    guard.hold(path, OWNER)
    assert owners.asked == []


def test_no_owner_is_told_what_the_journal_does_not_know(host: Host, journal: Journal, owners: ToyOwners) -> None:
    guard, path, _ = held_late(host, journal, owners)
    (blocked := journal.file.with_name(f"{journal.file.name}.new")).mkdir()
    with pytest.raises(OSError, match=r"directory"):
        guard.record()
    guard.hold(path, OWNER)
    assert (guard.owners(), owners.asked) == ((), [])
    blocked.rmdir()
    guard.hold(path, OWNER)
    assert owners.asked == [host.get(path)]


def test_a_record_that_cannot_be_reached_stays_in_the_journal(host: Host, journal: Journal, owners: ToyOwners) -> None:
    guard, path, original, ours = raised(host, journal, owners)
    owners.problem = "no answer"
    (outcome,) = guard.restore()
    assert (outcome.result, host.get(path)) == (Result.OK, original)
    assert "no answer" in outcome.message
    (entry,) = journal.load().entries
    assert entry.owner == OWNER
    assert ours in entry.ours


def test_a_record_outlives_the_boot_and_a_group_does_not(host: Host, journal: Journal, owners: ToyOwners) -> None:
    guard, _, _, _ = raised(host, journal, owners)
    guard.hold(host.make("plain"))
    guard.apply({f"{host.parent}/plain": 2048})
    other = journal.file.parent / "boot"
    other.write_text("another boot\n")
    loaded = Journal(journal.file.parent, other).load()
    assert loaded.other_boot
    assert [entry.owner for entry in loaded.entries] == [OWNER]


def test_a_kept_group_that_was_made_anew_leaves_its_record_to_the_owner(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, original, _ = raised(host, journal, owners)
    assert guard.owners() == (OWNER,)
    guard.keep()
    (entry,) = journal.load().entries
    host.set(path, original + 5)  # neither ours nor the original: another group, for all that is known
    later = Guard(host.hierarchy, host.access, journal, owners)
    assert later.adopt(entry) is False
    assert owners.asked[-1] == original
    assert later.owners() == ()


def test_a_record_that_nobody_waits_for_is_no_problem(host: Host, journal: Journal, owners: ToyOwners) -> None:
    guard, path, original, _ = raised(host, journal, owners)
    other, owners.problem = {Owner("another", "container"): "engine away"}, None
    owners.settle = lambda: other  # type: ignore[method-assign]
    assert [one.result for one in guard.restore()] == [Result.OK]
    assert host.get(path) == original
    assert journal.load().entries == ()


def test_the_record_of_a_released_group_that_somebody_else_has_set_is_put_back(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, original, _ = raised(host, journal, owners)
    owners.done()
    host.set(path, 777)
    guard.release(path)
    assert (guard.is_foreign(path), owners.asked[-1]) == (True, original)
    assert [entry.owner for entry in guard._entries(guard.held())] == [OWNER]
    guard.restore()
    assert (host.get(path), owners.record) == (777, original)
