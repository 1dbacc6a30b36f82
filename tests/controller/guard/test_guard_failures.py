"""The guard where files, folders and the journal fail it: what is not done is said, and nothing else stops."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from held_group import raised, results
from real_host import Host

from qioi.controller.guard.journal import Journal, Loaded
from qioi.controller.guard.owners import Nobody
from qioi.controller.guard.restore import Result, restore_entries
from qioi.controller.levers.files import Files
from qioi.controller.levers.lever import Identity
from qioi.controller.levers.shares import Shares
from qioi.kernel.errors import CgroupError


def test_full_disk_under_the_journal_means_no_write(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, path = raised(host, journal)
    other = host.make("b")
    guard.hold(other)
    before = host.get(path), host.get(other)

    def full(entries: object, *, durable: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "store", full)
    outcomes = guard.apply({path: 2048, other: 2048})
    assert results(outcomes) == [Result.FAILED, Result.FAILED]
    assert "No space left on device: nothing is written without it" in outcomes[0].message
    assert (host.get(path), host.get(other)) == before
    monkeypatch.undo()
    assert results(guard.apply({path: 2048, other: 2048})) == [Result.OK, Result.OK]


def test_a_journal_that_cannot_be_written_stops_no_way_back_to_the_original(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on the disk names the value in force and the original: that is enough for whoever restores."""
    guard, path = raised(host, journal)
    other = host.make("b")
    guard.hold(other)
    stored, original = journal.load(), guard.raw(path, guard.found(path))

    def full(entries: object, *, durable: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "store", full)
    outcomes = {one.path: one.result for one in guard.apply({path: guard.found(path), other: 2048})}
    assert outcomes == {path: Result.OK, other: Result.FAILED}
    assert (host.get(path), journal.load()) == (original, stored)
    assert guard.changed() == ()
    monkeypatch.undo()
    assert results(guard.apply({path: 4096, other: 2048})) == [Result.OK, Result.OK]
    guard.restore()
    assert host.get(path) == original


@pytest.mark.parametrize("removed", ["journal", "folder"])
def test_a_journal_that_somebody_removes_is_written_anew_and_said_once(
    host: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture, removed: str
) -> None:
    """Without it nobody would put back the share of a daemon that is killed then."""
    journal = Journal(tmp_path / "state" / "of")
    guard, path = raised(host, journal)
    if removed == "journal":
        journal.file.unlink()
    else:
        shutil.rmtree(journal.file.parents[1])
    for _ in range(3):
        guard.apply({})
    (entry,) = journal.load().entries
    assert (entry.path, entry.original) == (path, guard.held()[path].original)
    (said,) = [one.message for one in caplog.records]
    assert said == f"journal {journal.file}: somebody has removed it: it is written anew"
    journal.file.unlink()
    guard.apply({})
    assert len(caplog.records) == 2
    shutil.rmtree(journal.file.parents[1])
    assert results(guard.restore()) == [Result.OK]
    caplog.clear()
    guard.apply({})
    assert (journal.load(), caplog.records) == (Loaded(), [])


def test_a_removed_journal_that_cannot_be_written_anew_is_said_once(
    host: Host, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    guard, path = raised(host, journal)
    shutil.rmtree(journal.file.parent)
    journal.file.parent.touch()
    for _ in range(3):
        guard.apply({})
    assert len(caplog.records) == 1
    journal.file.parent.unlink()
    guard.apply({})
    assert [one.path for one in journal.load().entries] == [path]


class Broken(Files):
    """Files of which one cannot be written, or takes another value than the one written."""

    def __init__(self, host: Host, path: str, takes: int | None = None) -> None:
        super().__init__(host.hierarchy)
        self.path, self.takes = path, takes

    def write(self, path: str, value: int, identity: Identity) -> None:
        if path != self.path:
            super().write(path, value, identity)
        elif self.takes is None:
            raise CgroupError(f"{path}: Input/output error")
        else:
            super().write(path, self.takes, identity)


class MadeAnew(Files):
    """Files in which the group is removed, and made again by somebody else, between our last look and our write."""

    def __init__(self, host: Host, name: str) -> None:
        super().__init__(host.hierarchy)
        self.host, self.name, self.due = host, name, True

    def write(self, path: str, value: int, identity: Identity) -> None:
        if self.due:
            before = os.open(self.host.hierarchy.folder(path), os.O_RDONLY)  # its inode is not to be the next one's
            self.host.remove(path)
            assert self.host.make(self.name, 333) == path
            os.close(before)
        super().write(path, value, identity)


@pytest.mark.parametrize("host", ["files"], indirect=True)
def test_a_group_made_anew_while_its_file_is_opened_is_gone(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, guard, opens = host.make("a"), host.guard(journal), os.open
    guard.hold(path)

    def opens_late(file: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None:
            host.remove(path)
            host.make("a", 333)
        return opens(file, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opens_late)
    (outcome,) = guard.apply({path: 4096})
    assert (outcome.result, outcome.message.endswith("another group has that path now")) == (Result.GONE, True)
    assert host.get(path) == 333


@pytest.mark.parametrize("host", ["files", "files on a fake of v2"], indirect=True)
@pytest.mark.parametrize("when", ["raised", "restored"])
def test_another_group_that_comes_just_before_our_write_is_not_written(host: Host, journal: Journal, when: str) -> None:
    path, guard = host.make("a"), host.guard(journal)
    guard.hold(path)
    files = guard._lever.access = MadeAnew(host, "a")
    if when == "restored":
        files.due = False
        assert results(guard.apply({path: 4096})) == [Result.OK]
        files.due = True
    outcomes = guard.apply({path: 4096}) if when == "raised" else guard.restore()
    assert (results(outcomes), host.get(path)) == ([Result.GONE], 333)


REFUSALS = ("ENOENT", "EBUSY", "EINVAL", "ENODEV", "EROFS", "ENOSPC", "EACCES", "EMFILE", "EINTR", "ERANGE")


@pytest.mark.parametrize("host", ["files", "files on a fake of v2"], indirect=True)
@pytest.mark.parametrize("name", REFUSALS)
def test_whatever_the_kernel_answers_a_way_back_is_tried_until_it_is_gone(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, guard = host.make("a"), host.guard(journal)
    guard.hold(path)
    original, number = host.get(path), getattr(errno, name)
    assert results(guard.apply({path: 4096})) == [Result.OK]

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr("qioi.controller.levers.files.write_number", refuse)
        outcome = guard.release(path)
        assert (outcome and outcome.result, guard.changed()) == (Result.FAILED, (path,))
        assert results(guard.restore()) == [Result.FAILED]
        (entry,) = journal.load().entries
        assert restore_entries(Shares(host.hierarchy, host.access), [entry])[1] == [entry]
    assert (entry.original, results(guard.restore()), host.get(path)) == (original, [Result.OK], original)
    assert journal.load().entries == ()


def test_one_that_fails_does_not_stop_the_others_and_stays_in_the_journal(host: Host, journal: Journal) -> None:
    good, bad = host.make("a"), host.make("b")
    guard = host.guard(journal)
    original = host.get(good)
    for path in (bad, good):
        guard.hold(path)
    guard.apply({bad: 4096, good: 4096})
    guard._lever.access = Broken(host, bad)
    assert results(guard.apply({bad: 2048, good: 2048})) == [Result.FAILED, Result.OK]
    assert sorted(results(guard.restore())) == [Result.FAILED, Result.OK]
    assert host.get(good) == original
    assert [entry.path for entry in journal.load().entries] == [bad]
    guard._lever.access = host.access
    assert results(guard.restore()) == [Result.OK]
    assert host.get(bad) == original


def test_a_failed_write_is_tried_again(host: Host, journal: Journal) -> None:
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    guard._lever.access = Broken(host, path)
    assert results(guard.apply({path: 4096})) == [Result.FAILED]
    guard._lever.access = host.access
    assert results(guard.apply({path: 4096})) == [Result.OK]
    assert guard.shares(path) == 4096


def test_a_value_that_reads_back_otherwise_is_left_alone(host: Host, journal: Journal) -> None:
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    guard._lever.access = Broken(host, path, takes=900)
    (outcome,) = guard.apply({path: 4096})
    assert outcome.result is Result.FOREIGN
    assert "reads 900: left alone" in outcome.message


def test_a_restore_that_reads_back_otherwise_is_a_failure(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    guard._lever.access = Broken(host, path, takes=900)
    (outcome,) = guard.restore()
    assert outcome.result is Result.FAILED
    assert "reads 900" in outcome.message
    assert journal.load().entries


def test_a_folder_that_cannot_be_looked_at_is_an_error(host: Host, journal: Journal) -> None:
    with pytest.raises(CgroupError, match="File name too long"):
        host.guard(journal).hold("x/" * 3000)


def test_a_crash_between_journal_and_write_is_restored_either_way(host: Host, journal: Journal) -> None:
    """The journal knows the value before and the value after: whichever is in force is ours."""
    _, path = raised(host, journal)
    (entry,) = journal.load().entries
    for current in entry.ours:
        host.set(path, current)
        outcomes, left = restore_entries(Shares(host.hierarchy, host.access), [entry], Nobody())
        assert (results(outcomes), left) == ([Result.SKIPPED if current == entry.original else Result.OK], [])
        assert host.get(path) == entry.original
    outcomes, _ = restore_entries(Shares(host.hierarchy, host.access), [entry], Nobody())
    assert results(outcomes) == [Result.SKIPPED]


def test_a_journal_folder_that_is_replaced_is_a_failure_not_a_crash(host: Host, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    journal = Journal(tmp_path / "s")
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    (tmp_path / "s").rmdir()
    (tmp_path / "s").touch()
    before = host.get(path)
    assert results(guard.apply({path: 4096})) == [Result.FAILED]
    assert host.get(path) == before
