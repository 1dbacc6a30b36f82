"""The journal of a daemon that died: no problem with the file keeps a value from being restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.left import read_left, still_left, store_left
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


@pytest.mark.parametrize("movable", [True, False])
def test_of_a_damaged_journal_all_is_taken_that_can_be_read(journal: Journal, movable: bool) -> None:
    journal.file.write_bytes(journal.file.read_bytes() + b"half")
    aside = journal.file.with_name("journal.damaged")
    if not movable:
        aside.mkdir()
        (aside / "of-the-last-time").touch()
    entries, (problem,) = read_left(journal)
    assert entries == (ENTRY,)
    assert f"{journal.file}: line 3: half-written or damaged: what can be read is restored" in problem
    assert (f"kept as {aside}" in problem, journal.file.exists()) == (movable, not movable)
    assert ("it cannot be set aside: Is a directory" in problem) is not movable


def test_a_journal_that_cannot_be_written_is_said(journal: Journal) -> None:
    journal.file.with_name("journal.new").mkdir()
    (problem,) = store_left(journal, [ENTRY])
    assert problem == f"{journal.file}: Is a directory: it stays as it was, and names what was restored, too"
    assert read_left(journal) == ((ENTRY,), [])


def test_what_a_recovery_has_left_is_gone_on_with_where_it_can_be_read(journal: Journal) -> None:
    assert still_left(journal) == (ENTRY,)
    journal.file.unlink()
    assert still_left(journal) == ()
    journal.file.mkdir()
    assert still_left(journal) == ()
