"""A log whose name is another file's that holds what was read of it; and one that was renamed in a lull."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from descriptors import open_files
from followed_log import append, lines_of

from qioi.monitor import FileTail
from qioi.monitor.logs import tail as tails

OLD = b"".join(b"2026-01-01 00:00:00.%03d UTC block %d\n" % (number, number) for number in range(500))


def link_a_copy(log: Path) -> None:
    """Have it on another disk, as an operator does whose disk is full."""
    moved = log.with_name("elsewhere")
    shutil.copy2(log, moved)
    log.rename(log.with_name("peer.log.full"))
    log.symlink_to(moved)


def edit(log: Path) -> None:
    """As `sed -i` does."""
    log.with_name("edited").write_bytes(log.read_bytes())
    log.with_name("edited").replace(log)


@pytest.mark.parametrize("move", [link_a_copy, edit])
@pytest.mark.parametrize("begun", [b"", b"unfin"])
def test_old_lines_under_the_name_again_are_not_new(log: Path, move: object, begun: bytes) -> None:
    """They counted as commits of that moment: thousands a second."""
    tail = FileTail(log)
    append(log, OLD + begun)
    assert len(lines_of(tail.poll())) == 500
    move(log)  # type: ignore[operator]
    assert tail.poll() == []
    append(log, b"ished\nnew\n")
    assert lines_of(tail.poll()) == [begun + b"ished", b"new"]
    assert open_files(log.parent) == 1
    tail.close()


@pytest.mark.parametrize("place", [10, len(OLD) - 10])
def test_a_new_file_that_only_resembles_the_old_one_is_read_from_its_beginning(log: Path, place: int) -> None:
    tail = FileTail(log)
    append(log, OLD)
    tail.poll()
    changed = bytearray(log.read_bytes())
    changed[place] ^= 1
    log.rename(log.with_name("peer.log.1"))
    log.write_bytes(changed)
    assert len(lines_of(tail.poll())) == len(changed.splitlines())
    tail.close()


def test_a_new_file_that_is_shorter_is_read_from_its_beginning(log: Path) -> None:
    tail = FileTail(log)
    append(log, OLD)
    tail.poll()
    log.rename(log.with_name("peer.log.1"))
    log.write_bytes(OLD[:200])
    assert b"".join(tail.poll()) == OLD[: OLD[:200].rfind(b"\n") + 1]
    tail.close()


def test_a_rename_that_is_taken_back_repeats_nothing(log: Path) -> None:
    tail = FileTail(log)
    append(log, OLD)
    tail.poll()
    aside = log.with_name("peer.log.1")
    log.rename(aside)
    log.touch()
    assert tail.poll() == []
    log.unlink()
    aside.rename(log)
    assert tail.poll() == []
    append(log, b"new\n")
    assert lines_of(tail.poll()) == [b"new"]
    tail.close()


def test_a_log_that_was_rotated_in_a_lull_is_read_until_its_writer_has_moved(log: Path) -> None:
    tail = FileTail(log)
    with log.open("ab", buffering=0) as writer:
        log.rename(log.with_name("peer.log.1"))
        log.touch()
        for _ in range(3 * tails._LINGER):
            assert tail.poll() == []
        writer.write(b"late\n")
        assert lines_of(tail.poll()) == [b"late"]
    append(log, b"moved\n")
    for _ in range(tails._LINGER + 1):
        tail.poll()
    assert open_files(log.parent) == 1
    tail.close()


def test_so_it_is_for_ten_minutes_at_most(log: Path) -> None:
    """It would occupy the disk for as long as the daemon runs."""
    tail = FileTail(log)
    log.rename(log.with_name("peer.log.1"))
    log.touch()
    for _ in range(tails._LINGER_DELETED + 1):
        tail.poll()
    assert open_files(log.parent) == 1
    tail.close()


def test_what_cannot_be_read_is_taken_for_another_file(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = FileTail(log)
    append(log, OLD)
    tail.poll()
    edit(log)
    pread, failed = os.pread, []

    def fail_once(fd: int, size: int, offset: int) -> bytes:
        if not failed and os.fstat(fd).st_ino == log.stat().st_ino:
            failed.append(fd)
            raise OSError(5, "Input/output error")
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", fail_once)
    assert len(lines_of(tail.poll())) == 501
    tail.close()


@pytest.mark.parametrize("written", [b"", b"between\n"])
def test_a_copy_of_before_a_truncation_under_the_name_again_repeats_nothing(log: Path, written: bytes) -> None:
    """A rotation by copytruncate is taken back by hand."""
    tail = FileTail(log)
    append(log, OLD)
    tail.poll()
    append(log, b"last\n")
    copy = shutil.copy2(log, log.with_name("peer.log.1"))
    os.truncate(log, 0)
    append(log, written)
    assert lines_of(tail.poll()) == [b"last", *written.splitlines()]
    tail.poll()
    copy.rename(log)
    assert tail.poll() == []
    append(log, b"new\n")
    assert lines_of(tail.poll()) == [b"new"]
    tail.close()


def truncated(log: Path) -> tuple[FileTail, Path]:
    """Follow a log that is copied and truncated; give its tail, which has seen that, and the copy."""
    tail = FileTail(log)
    append(log, OLD)
    tail.poll()
    copy = shutil.copy2(log, log.with_name("peer.log.1"))
    os.truncate(log, 0)
    tail.poll()
    return tail, copy


def test_such_a_copy_that_loses_the_name_and_gets_it_back_repeats_nothing(log: Path) -> None:
    tail, copy = truncated(log)
    tail.poll()
    copy.rename(log)
    append(log, b"under the name\n")
    assert lines_of(tail.poll()) == [b"under the name"]
    log.rename(copy)
    append(log, b"another\n")
    while open_files(log.parent) > 1:
        tail.poll()
    copy.rename(log)
    append(log, b"new\n")
    assert lines_of(tail.poll()) == [b"new"]
    tail.close()


def test_another_file_in_the_place_of_such_a_copy_is_read_from_its_beginning(log: Path) -> None:
    """Its inode may be the copy's, which was deleted meanwhile."""
    tail, copy = truncated(log)
    copy.write_bytes(OLD.replace(b"block", b"chunk") + b"more\n")
    copy.rename(log)
    assert len(lines_of(tail.poll())) == 501
    tail.close()
