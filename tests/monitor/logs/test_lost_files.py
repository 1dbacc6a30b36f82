"""Files of a log that are gone before they were read: they are counted, and what was read of the others counts on."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from commit_line import commit_line
from descriptors import open_files
from followed_log import append, lines_of

from qioi.model import ChannelReading, Component, Role
from qioi.monitor import FileTail
from qioi.monitor.logs import source as sources
from qioi.monitor.logs.component_logs import LogChannels

TRANSACTIONS = 20
NOISE = b"2026-01-01 00:00:00.000 UTC 0001 DEBU [gossip] send -> Entering\n"


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


def commits(*blocks: int) -> bytes:
    return "".join(commit_line("red", block, TRANSACTIONS) for block in blocks).encode()


def followed(log: Path) -> LogChannels:
    """Follow a log of which five blocks were read."""
    channels = LogChannels([Component("peer0", Role.PEER, "g/p", ("red",), str(log))], ["red"])
    append(log, commits(*range(5)))
    assert channels.read(1.0)["red"].height == 4
    return channels


def rotate(log: Path, *contents: bytes) -> None:
    """Rotate once for each content that the next file is to have; two rotated files are kept."""
    for content in contents:
        with contextlib.suppress(FileNotFoundError):
            log.with_name("peer.log.1").rename(log.with_name("peer.log.2"))
        log.rename(log.with_name("peer.log.1"))
        append(log, content)
        time.sleep(0.05)


def after(channels: LogChannels, looks: int = 3) -> ChannelReading:
    for look in range(looks):
        reading = channels.read(2.0 + look)["red"]
    channels.close()
    return reading


@pytest.mark.parametrize("unread", [0, 1, 3])
def test_blocks_of_a_lost_file_count_also_where_lines_before_it_were_unread(log: Path, unread: int) -> None:
    channels = followed(log)
    append(log, commits(*range(5, 5 + unread)))
    rotate(log, commits(8, 9), commits(10), b"", commits(11, 12))  # the first is lost
    reading = after(channels)
    assert (reading.height, reading.committed) == (12, 13 * TRANSACTIONS)


def test_so_they_do_where_one_look_does_not_reach_the_lost_file(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "FileTail", lambda path, counters: FileTail(path, counters, max_read=1500))
    channels = followed(log)
    append(log, NOISE * 30 + commits(5, 6))
    rotate(log, commits(7, 8), commits(9), b"", commits(10, 11))
    reading = after(channels, looks=6)
    assert (reading.height, reading.committed) == (11, 12 * TRANSACTIONS)


def test_so_do_blocks_of_a_new_file_that_is_passed_over(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = lambda path, counters: FileTail(path, counters, max_read=2000, max_backlog=3000)  # noqa: E731
    monkeypatch.setattr(sources, "FileTail", small)
    channels = followed(log)
    append(log, commits(5))
    rotate(log, commits(6, 7) + NOISE * 100 + commits(8, 9))
    reading = after(channels)
    assert (reading.height, reading.committed) == (9, 10 * TRANSACTIONS)


@pytest.mark.parametrize("forged", [11, 10_000])
def test_a_jump_is_believed_behind_what_was_lost_only(log: Path, forged: int) -> None:
    """Whoever has a line written into the log gains nothing by a rotation that comes later."""
    channels = followed(log)
    append(log, commits(5, forged, 6))
    rotate(log, commits(7, 8), commits(9), b"", commits(10))
    reading = after(channels)
    assert (reading.height, reading.committed) == (10, 11 * TRANSACTIONS)
