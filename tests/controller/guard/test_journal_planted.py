"""Whoever owns the state folder can put anything in the place of the daemon's files: it waits for none of it."""

from __future__ import annotations

import os

import pytest
from planted import KINDS, plant
from waiting import PATIENCE

from qioi.controller.guard.journal import Entry, Journal, Loaded
from qioi.controller.levers.lever import GroupId

pytestmark = [
    pytest.mark.timeout(PATIENCE),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device"),
]

ENTRIES = [Entry("a/b", "cpu.shares", GroupId(29, 4711), 1024, (5120,))]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_planted_as_the_journal_is_not_read(journal: Journal, kind: str) -> None:
    plant(journal.file, kind)
    with pytest.raises(OSError, match="not a regular file"):
        journal.load()


@pytest.mark.parametrize("kind", [one for one in KINDS if one != "folder"])
def test_what_is_planted_for_the_next_journal_is_replaced(journal: Journal, kind: str) -> None:
    plant(temporary := journal.file.with_name("journal.new"), kind)
    journal.store(ENTRIES)
    assert journal.load() == Loaded(tuple(ENTRIES))
    assert not temporary.exists()
    if kind == "link":
        assert temporary.with_name("target").read_text() == "whole\n"


def test_a_journal_that_another_user_wrote_is_not_read(journal: Journal) -> None:
    """It would have root write to whatever control group it names."""
    journal.store(ENTRIES)
    os.chown(journal.file, 65534, 65534)
    with pytest.raises(OSError, match=r"belongs to user 65534, not to root or this user: .*journal"):
        journal.load()


def test_a_file_without_end_is_not_read(journal: Journal) -> None:
    journal.file.touch()
    os.truncate(journal.file, 10 << 30)
    with pytest.raises(OSError, match=r"larger than \d+ bytes: .*journal"):
        journal.load()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_planted_where_a_damaged_journal_is_kept_is_no_copy_of_it(journal: Journal, kind: str) -> None:
    plant(planted := journal.file.with_name("journal.damaged"), kind)
    journal.file.write_text("whole\n")  # what the link leads to has the same
    assert journal.set_aside() == planted.with_name("journal.damaged-2")
    assert journal.set_aside() == planted.with_name("journal.damaged-2")


def test_a_folder_in_its_place_is_said(journal: Journal) -> None:
    plant(journal.file.with_name("journal.new"), "folder")
    with pytest.raises(OSError, match=r"journal\.new is in the way: Is a directory"):
        journal.store(ENTRIES)
