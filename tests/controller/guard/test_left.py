"""The journal of a daemon that died: no problem with the file keeps a value from being restored."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from refusing import read_only

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.left import UnreadError, read_left, still_left, store_left, warn_of_left
from qioi.controller.levers.lever import GroupId

ENTRY = Entry("g", "cpu.shares", GroupId(1, 2), 1024, (4096,))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.store([ENTRY])
    return journal


def test_a_sound_journal_is_read_and_stays(journal: Journal) -> None:
    assert read_left(journal) == ((ENTRY,), [])
    assert journal.file.exists()
    assert store_left(journal, []) == []
    assert not journal.file.exists()


def damage(journal: Journal, end: bytes = b"half") -> bytes:
    journal.store([ENTRY])
    journal.file.write_bytes(journal.file.read_bytes() + end)
    return journal.file.read_bytes()


def test_of_a_damaged_journal_all_is_taken_that_can_be_read(journal: Journal) -> None:
    content = damage(journal)
    aside = journal.file.with_name("journal.damaged")
    entries, (problem,) = read_left(journal)
    assert entries == (ENTRY,)
    assert f"{journal.file}: line 3: half-written or damaged: what can be read is restored" in problem
    assert problem.endswith(f"; kept as {aside}")
    assert store_left(journal, []) == []
    assert (journal.file.exists(), aside.read_bytes()) == (False, content)


def test_a_damaged_journal_on_a_read_only_disk_is_read_too(journal: Journal) -> None:
    damage(journal)
    with read_only(journal.file.parent):
        entries, (problem,) = read_left(journal)
    assert (entries, problem.endswith("; it cannot be set aside: Read-only file system")) == ((ENTRY,), True)


def test_what_a_damaged_journal_names_is_read_again_until_the_rest_is_stored(journal: Journal) -> None:
    content = damage(journal)
    found = read_left(journal)
    assert read_left(journal) == found  # the first recovery was killed before it had restored anything
    journal.file.with_name("journal.new").mkdir()  # as a full disk
    assert len(store_left(journal, [ENTRY])) == 1
    assert (read_left(journal), still_left(journal)) == (found, (ENTRY,))
    (kept,) = journal.file.parent.glob("*.damaged*")
    assert kept.read_bytes() == content


def full(_: Journal) -> Path:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_journal_of_which_nothing_is_left_to_read_stays_where_it_cannot_be_kept(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, on which a file can still be removed."""
    journal.file.write_text("half")
    monkeypatch.setattr(Journal, "set_aside", full)
    with pytest.raises(OSError, match="No space left") as caught:
        read_left(journal)
    why = "line 1: half-written or damaged; it cannot be set aside: No space left on device"
    assert (caught.value.errno, caught.value.strerror) == (errno.ENOSPC, why)


@pytest.mark.parametrize("reason", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_damaged_journal_is_kept_on_a_disk_without_hard_links(
    journal: Journal, reason: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As vfat and some that are mounted by FUSE, which answer differently; none is at hand in a test."""

    def link(*_: object, **__: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "link", link)
    content = damage(journal)
    found = read_left(journal)
    assert read_left(journal) == found
    assert store_left(journal, []) == []
    (kept,) = journal.file.parent.iterdir()
    assert (found[0], kept.name, kept.read_bytes()) == ((ENTRY,), "journal.damaged", content)


def test_each_damaged_journal_is_kept(journal: Journal) -> None:
    (in_the_way := journal.file.with_name("journal.damaged-2")).mkdir()
    contents = []
    for end in (b"one", b"two"):
        contents.append(damage(journal, end))
        read_left(journal)
    aside = [one for one in sorted(journal.file.parent.glob("*.damaged*")) if one != in_the_way]
    assert [one.name for one in aside] == ["journal.damaged", "journal.damaged-3"]
    assert [one.read_bytes() for one in aside] == contents


def test_a_journal_that_cannot_be_written_is_said(journal: Journal) -> None:
    journal.file.with_name("journal.new").mkdir()
    (problem,) = store_left(journal, [ENTRY])
    assert problem == (
        f"{journal.file}: journal.new is in the way: Is a directory: "
        "it stays as it was, and names what was restored, too"
    )
    assert read_left(journal) == ((ENTRY,), [])


def test_what_a_recovery_has_left_is_gone_on_with_where_it_can_be_read(journal: Journal) -> None:
    assert still_left(journal) == (ENTRY,)
    journal.file.unlink()
    assert still_left(journal) == ()


def test_a_journal_that_cannot_be_read_is_not_gone_on_with(journal: Journal) -> None:
    journal.file.unlink()
    journal.file.mkdir()
    with pytest.raises(UnreadError) as caught:
        still_left(journal)
    lost = "the originals in it would be lost: accepted is a journal that can be read, or none"
    assert str(caught.value) == f"{journal.file}: not a regular file: {lost}"


@pytest.mark.parametrize("left", [(), (ENTRY,)])
def test_a_damaged_journal_that_cannot_be_set_aside_is_not_replaced(
    journal: Journal, left: tuple[Entry, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    content, why = damage(journal), "damaged, and cannot be set aside: No space left on device"
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "set_aside", full)
        assert read_left(journal)[0] == (ENTRY,)
        (problem,) = store_left(journal, left)
        with pytest.raises(UnreadError, match=why):
            still_left(journal)
    assert problem == f"{journal.file}: {why}: it stays as it was, and names what was restored, too"
    assert journal.file.read_bytes() == content
    assert (still_left(journal), store_left(journal, left)) == ((ENTRY,), [])
    assert journal.file.with_name("journal.damaged").read_bytes() == content


def test_a_dry_run_names_each_journal_that_is_left(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_left(journal.file.parent, ("slices", journal.file.name), "qioi restore")
    assert caplog.messages == [
        f"a daemon before this one has left its journal {journal.file}: a dry run restores nothing; "
        "then run `qioi restore`"
    ]
    caplog.clear()
    warn_of_left(journal.file.parent, ("slices", journal.file.name), "qioi restore", "/mnt: a daemon is running")
    assert caplog.messages == [
        f"/mnt: a daemon is running: the journal {journal.file} is taken for that one's: a dry run restores nothing"
    ]
