"""Groups whose owner keeps a record of its own: what it brings back is ours, and the record is put back too."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from real_host import Host

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Result
from qioi.controller.levers.lever import GroupId
from qioi.kernel.errors import CgroupError
from qioi.model import Owner

OWNER = Owner("toy", "container")


class ToyOwners:
    """One record. What is asked for is done when the test says so."""

    def __init__(self) -> None:
        self.record = 0
        self.asked: list[int] = []
        self.left: list[Owner] = []
        self.ours: set[int] = set()
        self.problem: str | None = None

    def tell(self, entry: Entry) -> None:
        self.asked.append(entry.ours[-1])
        self.ours.update(entry.ours)

    def done(self) -> None:
        """What was asked for last is on the record."""
        self.record = self.asked[-1]
        self.ours = {self.record}

    def release(self, entry: Entry) -> None:
        self.asked.append(entry.original)
        self.ours.update(entry.ours)

    def leave(self, owner: Owner) -> None:
        self.left.append(owner)

    def kept(self, owner: Owner | None) -> tuple[int, ...]:
        return tuple(self.ours) if owner else ()

    def settle(self) -> Mapping[Owner, str]:
        if self.problem is not None:
            return {OWNER: self.problem}
        if self.asked:
            self.record, self.asked, self.ours = self.asked[-1], [], set()
        return {}


@pytest.fixture
def owners() -> ToyOwners:
    return ToyOwners()


def raised(host: Host, journal: Journal, owners: ToyOwners) -> tuple[Guard, str, int, int]:
    """A group that was raised, and its original and present values, in the file's own unit."""
    guard = Guard(host.hierarchy, host.access, journal, owners)
    path = host.make("a")
    original = host.get(path)
    guard.hold(path, OWNER)
    (outcome,) = guard.apply({path: 4096})
    assert outcome.result is Result.OK
    assert owners.asked == [host.get(path)]
    return guard, path, original, host.get(path)


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


@pytest.mark.parametrize("when", ["as it is put back", "while the owner is waited for"])
def test_an_owner_that_writes_our_value_once_more_at_the_end_does_not_leave_it_there(
    host: Host, journal: Journal, owners: ToyOwners, when: str
) -> None:
    """As systemd does with what it was told just before: it writes the group a little later."""
    guard, path, original, ours = raised(host, journal, owners)
    write, settle = host.access.write, owners.settle

    def late_write(group: str, value: int) -> None:
        write(group, value)
        host.set(path, ours)
        guard._lever.access.write = write  # type: ignore[method-assign]

    def late_settle() -> Mapping[Owner, str]:
        host.set(path, ours)
        return settle()

    if when == "as it is put back":
        guard._lever.access.write = late_write  # type: ignore[method-assign]
    else:
        owners.settle = late_settle  # type: ignore[method-assign]
    (outcome,) = guard.restore()
    assert (outcome.result, host.get(path), owners.record) == (Result.OK, original, original)
    assert journal.load().entries == ()


def test_a_value_that_came_late_and_cannot_be_put_back_stays_in_the_journal(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, original, ours = raised(host, journal, owners)
    settle = owners.settle

    def refused(group: str, value: int) -> None:
        raise CgroupError("read-only")

    def late_settle() -> Mapping[Owner, str]:
        host.set(path, ours)
        guard._lever.access.write = refused  # type: ignore[method-assign]
        return settle()

    owners.settle = late_settle  # type: ignore[method-assign]
    (outcome,) = guard.restore()
    assert (outcome.result, outcome.message) == (Result.FAILED, "read-only")
    assert [(one.original, one.owner) for one in journal.load().entries] == [(original, OWNER)]


@pytest.mark.parametrize("times", [1, 2], ids=["once", "again and again"])
def test_what_an_owner_that_cannot_be_reached_writes_over_the_original_is_seen(
    host: Host, journal: Journal, owners: ToyOwners, times: int
) -> None:
    """As systemd does with what it was told just before, and then it gives no answer."""
    guard, path, original, ours = raised(host, journal, owners)
    owners.problem = "no answer"
    write, left = host.access.write, iter(range(times))

    def overwritten(group: str, value: int) -> None:
        write(group, value)
        if next(left, None) is not None:
            host.set(path, ours)

    guard._lever.access.write = overwritten  # type: ignore[method-assign]
    (outcome,) = guard.restore()
    expected = (Result.OK, original) if times == 1 else (Result.FAILED, ours)
    assert (outcome.result, host.get(path)) == expected
    assert "no answer" in outcome.message
    assert [(one.original, one.owner) for one in journal.load().entries] == [(original, OWNER)]


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_a_group_that_can_not_be_looked_at_after_its_owner_is_not_called_restored(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, original, _ = raised(host, journal, owners)
    file = host.hierarchy.folder(path) / host.hierarchy.file
    settle = owners.settle

    def spoil() -> Mapping[Owner, str]:
        file.write_text("no number")
        return settle()

    owners.settle = spoil  # type: ignore[method-assign]
    (outcome,) = guard.restore()
    assert outcome.result is Result.FAILED
    assert "no number" in outcome.message
    (entry,) = journal.load().entries
    assert (entry.path, entry.original) == (path, original)


def test_a_group_that_goes_while_its_owner_is_waited_for_is_no_failure(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, _, _ = raised(host, journal, owners)
    settle = owners.settle

    def go() -> Mapping[Owner, str]:
        host.remove(path)
        return settle()

    owners.settle = go  # type: ignore[method-assign]
    (outcome,) = guard.restore()
    assert outcome.result is Result.OK
    assert journal.load().entries == ()


def test_what_somebody_else_sets_is_left_and_the_record_is_put_back(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    """Who writes the group alone does not know of the record: what it says would come up with the next start."""
    guard, path, original, ours = raised(host, journal, owners)
    owners.done()
    host.set(path, ours + 1)
    (outcome,) = guard.apply({path: 2048})
    assert outcome.result is Result.FOREIGN
    assert owners.left == [OWNER]  # nothing is told over it
    guard.record()
    assert [(one.owner, one.original) for one in journal.load().entries] == [(OWNER, original)]  # after a kill, too
    (outcome,) = guard.restore()
    assert (outcome.result, host.get(path), owners.record) == (Result.FOREIGN, ours + 1, original)
    assert journal.load().entries == ()


def test_a_container_that_goes_with_somebody_elses_share_leaves_no_record_of_ours(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, original, ours = raised(host, journal, owners)
    owners.done()
    host.set(path, ours + 1)
    guard.apply({path: 2048})
    host.remove(path)
    guard.drop(path)
    assert owners.asked[-1] == original
    host.make("a", ours)  # the record was not put back yet as it started again
    assert guard.hold(path, OWNER) == host.hierarchy.shares(original, original)
    guard.restore()
    assert host.get(path) == original


def test_what_an_owner_of_another_kernel_unit_has_on_record_is_put_back(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    """As after a boot with the other cgroup version: its record is the same, the groups' files are not."""
    guard = Guard(host.hierarchy, host.access, journal, owners)
    path = host.make("a", 77)
    other = "cpu.weight" if host.hierarchy.file == "cpu.shares" else "cpu.shares"
    assert guard.adopt(Entry(path, other, GroupId(0, 0), 500, (77,), OWNER)) is False
    assert owners.asked == [500]
    guard.hold(path, OWNER)
    guard.restore()
    assert host.get(path) == 77


def test_a_group_that_is_released_alone_has_its_owner_told_when_it_is_let_go_of(
    host: Host, journal: Journal, owners: ToyOwners
) -> None:
    guard, path, original, _ = raised(host, journal, owners)
    outcome = guard.release(path)
    assert outcome is not None
    assert (outcome.result, host.get(path), owners.asked[-1]) == (Result.OK, original, original)
    assert not guard.holds(path)
