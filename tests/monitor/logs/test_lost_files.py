"""Files of a log that are gone before they were read: they are counted, and what was read of the others counts on."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from descriptors import open_files
from followed_log import append, lines_of

from qioi.monitor import FileTail


def compress(log: Path, kept: int) -> None:
    """Rotate as Docker does with ``compress`` and ``max-file``."""
    for number in range(kept, 0, -1):
        old = log.with_name(f"peer.log.{number}.gz")
        if old.exists():
            old.rename(log.with_name(f"peer.log.{number + 1}.gz"))
    log.with_name(f"peer.log.{kept + 1}.gz").unlink(missing_ok=True)
    log.with_name("peer.log.1.gz").write_bytes(b"packed")
    log.unlink()
    log.touch()


def test_files_that_are_deleted_between_two_looks_are_counted(log: Path) -> None:
    tail = FileTail(log)
    append(log, b"1\n")
    for number in range(2, 6):  # max-file is 3
        with contextlib.suppress(FileNotFoundError):
            log.with_name("peer.log.1").rename(log.with_name("peer.log.2"))
        log.rename(log.with_name("peer.log.1"))
        append(log, b"%d\n" % number)
        time.sleep(0.05)  # as far apart as two rotations are at least
    assert lines_of(tail.poll()) == [b"1", b"", b"3", b"4", b"5"]
    assert (tail.counters.lost_files, tail.gap > 0, tail.backlog) == (1, True, True)
    assert lines_of(tail.poll()) == []
    assert (tail.gap, tail.backlog) == (0, False)
    tail.close()


def test_a_file_that_is_deleted_by_the_last_rotation_is_all_that_is(log: Path) -> None:
    tail = FileTail(log)
    append(log, b"1\n")
    for number in (2, 3):  # max-file is 2
        log.rename(log.with_name("peer.log.1"))
        append(log, b"%d\n" % number)
        time.sleep(0.05)
    assert lines_of(tail.poll()) == [b"1", b"2", b"3"]
    assert (tail.counters.lost_files, tail.gap) == (0, 0)
    tail.close()


@pytest.mark.parametrize(("rotations", "lost"), [(1, 0), (2, 1), (3, 2)])
def test_files_that_are_compressed_between_two_looks_are_counted(log: Path, rotations: int, lost: int) -> None:
    tail = FileTail(log)
    append(log, b"old\n")
    for _ in range(rotations):
        compress(log, 4)
        append(log, b"new\n")
    assert lines_of(tail.poll()) == ([b"old", b"", b"new"] if lost else [b"old", b"new"])
    assert (tail.counters.lost_files, tail.gap > 0) == (lost, lost > 0)
    tail.close()


def test_a_file_that_is_deleted_alone_is_no_loss(log: Path) -> None:
    tail = FileTail(log)
    append(log, b"old\n")
    log.unlink()
    append(log, b"new\n")
    assert lines_of(tail.poll()) == [b"old", b"new"]
    assert (tail.counters.lost_files, tail.gap) == (0, 0)
    tail.close()


def test_files_that_are_given_up_unread_are_counted(log: Path) -> None:
    tail, gaps = FileTail(log, max_read=16), []
    for number in range(40):  # each look takes one line of many, and finds another file
        append(log, b"a line of some length\n" * 10)
        log.rename(log.with_name(f"{log.name}.{number}.gone"))
        log.touch()
        tail.poll()
        gaps.append(tail.gap)
    assert tail.counters.lost_files > 0
    assert open_files(log.parent) <= 17
    while tail.poll() or tail.backlog:
        gaps.append(tail.gap)
    assert tail.counters.bytes + sum(gaps) == 40 * 220
    tail.close()
