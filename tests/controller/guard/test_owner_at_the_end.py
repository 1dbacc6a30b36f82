"""The end of a guard whose groups have an owner: its record is waited for, and what comes late is seen."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from real_host import Host
from toy_owners import OWNER, ToyOwners, raised

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Result
from qioi.controller.levers.lever import GroupId, Identity
from qioi.kernel.errors import CgroupError
from qioi.model import Owner


@pytest.mark.parametrize("when", ["as it is put back", "while the owner is waited for"])
def test_an_owner_that_writes_our_value_once_more_at_the_end_does_not_leave_it_there(
    host: Host, journal: Journal, owners: ToyOwners, when: str
) -> None:
    """As systemd does with what it was told just before: it writes the group a little later."""
    guard, path, original, ours = raised(host, journal, owners)
    write, settle = host.access.write, owners.settle

    def late_write(group: str, value: int, identity: Identity) -> None:
        write(group, value, identity)
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

    def refused(group: str, value: int, identity: Identity) -> None:
        raise CgroupError("read-only")

    def late_settle() -> Mapping[Owner, str]:
        host.set(path, ours)
        guard._lever.access.write = refused  # type: ignore[method-assign]
        return settle()

    owners.settle = late_settle  # type: ignore[method-assign]
    (outcome,) = guard.restore()
    has, should = (f"{host.hierarchy.file} = {value}" for value in (ours, original))
    assert (outcome.result, outcome.message) == (Result.FAILED, f"read-only; it has {has}, and should have {should}")
    assert [(one.original, one.owner) for one in journal.load().entries] == [(original, OWNER)]


@pytest.mark.parametrize("times", [1, 2], ids=["once", "again and again"])
def test_what_an_owner_that_cannot_be_reached_writes_over_the_original_is_seen(
    host: Host, journal: Journal, owners: ToyOwners, times: int
) -> None:
    """As systemd does with what it was told just before, and then it gives no answer."""
    guard, path, original, ours = raised(host, journal, owners)
    owners.problem = "no answer"
    write, left = host.access.write, iter(range(times))

    def overwritten(group: str, value: int, identity: Identity) -> None:
        write(group, value, identity)
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
