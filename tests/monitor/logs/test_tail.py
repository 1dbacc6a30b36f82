from __future__ import annotations

import math
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from descriptors import open_files
from followed_log import append, lines_of
from hypothesis import given
from hypothesis import strategies as st

from qioi.monitor import FileTail, Skip, SourceCounters
from qioi.monitor.logs.line_cutter import LineCutter


def test_starts_at_the_end_and_hands_out_each_line_once(log: Path) -> None:
    tail = FileTail(log)
    assert tail.poll() == []
    append(log, b"a\nb\n")
    assert lines_of(tail.poll()) == [b"a", b"b"]
    assert tail.poll() == []
    tail.close()


def test_a_half_written_line_waits_for_its_rest(log: Path) -> None:
    append(log, b"hal")
    tail = FileTail(log)
    append(log, b"f wri")
    assert tail.poll() == []
    append(log, b"tten\nnext")
    assert lines_of(tail.poll()) == [b"half written"]
    tail.close()


def test_rotation_by_rename_finishes_the_old_file_first(log: Path) -> None:
    tail = FileTail(log)
    writer = log.open("ab", buffering=0)
    writer.write(b"1\n")
    log.rename(log.with_name("peer.log.1"))
    writer.write(b"2\n")
    log.write_bytes(b"4\n")
    assert lines_of(tail.poll()) == [b"1", b"2", b"4"]
    writer.write(b"3 late\n")  # the writer has not noticed yet
    append(log, b"5\n")
    assert lines_of(tail.poll()) == [b"3 late", b"5"]
    writer.close()
    assert tail.counters.rotations == 1
    tail.close()


def test_a_file_rotated_away_between_two_looks_is_read(log: Path) -> None:
    tail = FileTail(log)
    one, two, three = (log.with_name(f"peer.log.{number}") for number in (1, 2, 3))
    three.write_bytes(b"long ago\n")
    append(log, b"1\n")
    log.rename(one)
    log.write_bytes(b"2\n")
    one.rename(two)
    log.rename(one)
    log.write_bytes(b"3\n")
    assert lines_of(tail.poll()) == [b"1", b"2", b"3"]
    assert tail.counters.rotations == 2
    tail.close()


def test_old_numbered_files_are_not_read_when_the_log_comes_back(log: Path) -> None:
    old = log.with_name("peer.log.1")
    old.write_bytes(b"long ago\n")
    os.utime(old, (1, 1))
    tail = FileTail(log)
    log.unlink()
    assert tail.poll() == []
    assert tail.problem == f"{log}: No such file or directory"
    log.write_bytes(b"back\n")
    assert lines_of(tail.poll()) == [b"back"]
    assert tail.problem is None
    tail.close()


def test_what_a_deleted_file_still_gets_is_read(log: Path) -> None:
    tail = FileTail(log)
    with log.open("ab", buffering=0) as writer:
        log.unlink()
        writer.write(b"after\n")
        assert lines_of(tail.poll()) == [b"after"]
    tail.close()


def test_a_deleted_file_is_let_go_in_the_end(log: Path) -> None:
    before = open_files(log.parent)
    tail = FileTail(log)
    log.unlink()
    for _ in range(700):
        tail.poll()
    assert open_files(log.parent) == before
    log.write_bytes(b"new\n")
    assert lines_of(tail.poll()) == [b"new"]
    tail.close()


def test_truncation(log: Path) -> None:
    append(log, b"x" * 1000 + b"\nhalf")
    tail = FileTail(log)
    os.truncate(log, 0)
    assert tail.poll() == [b"\n"]  # for what was not read
    append(log, b"a\n")
    assert lines_of(tail.poll()) == [b"a"]
    assert tail.counters.truncations == 1
    tail.close()


def test_a_truncated_file_that_has_already_grown_beyond_the_old_place(log: Path) -> None:
    tail = FileTail(log)
    append(log, b"seen\n")
    tail.poll()
    os.truncate(log, 0)
    new = [b"new %d" % number for number in range(100)]
    append(log, b"".join(line + b"\n" for line in new))
    assert lines_of(tail.poll()) == [b"", *new]
    assert tail.counters.truncations == 1
    tail.close()


@pytest.mark.parametrize("copy", ["peer.log.1", "peer.log-20261122", "peer-20261122.log", "peer.log.2026-11-22.1"])
def test_copytruncate_loses_nothing_that_the_copy_holds(log: Path, copy: str) -> None:
    log.with_name("peer.log-20261121").write_bytes(b"other content of the day before\n")
    tail = FileTail(log)
    append(log, b"seen\nbegun ")
    assert lines_of(tail.poll()) == [b"seen"]
    append(log, b"and ended\nlast\n")
    shutil.copy(log, log.with_name(copy))
    os.truncate(log, 0)
    append(log, b"new\n")
    assert lines_of(tail.poll()) == [b"begun and ended", b"last", b"new"]
    assert tail.poll() == []
    tail.close()


def test_a_writer_that_does_not_append_leaves_a_hole(log: Path) -> None:
    tail = FileTail(log)
    with log.open("r+b", buffering=0) as writer:
        writer.seek(200_000_000)
        os.truncate(log, 0)
        tail.poll()
        writer.write(b"after the hole\n")
        assert [line.lstrip(b"\0") for line in lines_of(tail.poll())] == [b"after the hole"]
    assert tail.counters.skipped == {}
    tail.close()


def test_a_line_that_is_too_long_is_passed_over_and_counted(log: Path) -> None:
    tail = FileTail(log, max_line=1000)
    append(log, b"x" * 1_000_000)
    assert tail.poll() == []
    append(log, b"still it\nnext\n")
    assert lines_of(tail.poll()) == [b"", b"next"]
    assert tail.counters.skipped == {Skip.TOO_LONG: 1}
    tail.close()


def test_a_backlog_is_worked_off_in_bounded_looks(log: Path) -> None:
    tail = FileTail(log, max_read=1000)
    lines = [b"%06d" % number for number in range(1000)]
    append(log, b"".join(line + b"\n" for line in lines))
    log.rename(log.with_name("peer.log.1"))
    log.write_bytes(b"new\n")
    found: list[bytes] = []
    for look in range(20):
        blocks = tail.poll()
        assert sum(map(len, blocks)) <= 1007
        found += lines_of(blocks)
        assert tail.backlog == (look < 7), look
    assert found == [*lines, b"new"]
    tail.close()


def test_rotations_leave_no_files_open(log: Path) -> None:
    before = open_files(log.parent)
    tail = FileTail(log)
    found: list[bytes] = []
    for number in range(300):
        append(log, b"%d\n" % number)
        log.rename(log.with_name("peer.log.1"))
        if number % 3:
            log.write_bytes(b"")
        found += lines_of(tail.poll())
        assert open_files(log.parent) <= before + 20
    for _ in range(30):
        found += lines_of(tail.poll())
    assert sorted(map(int, found)) == list(range(300))
    tail.close()
    tail.close()
    assert open_files(log.parent) == before


def test_what_is_no_regular_file_is_refused_without_hanging(tmp_path: Path) -> None:
    """Nor is it opened: a log's writer may have made its name a link to a device, which does something when opened.

    A socket is like a device without a driver: whoever opens it is told that there is no such device.
    """
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in (*(tmp_path / name for name in ("fifo", "socket", "link")), tmp_path):
            tail = FileTail(path)
            assert tail.poll() == []
            assert tail.problem == f"{path}: not a regular file"
            tail.close()
    assert open_files(tmp_path) == 0


def test_what_is_looked_at_is_what_is_opened(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write the log's folder may exchange the file in between."""
    look = os.fstat

    def exchanging(fd: int) -> os.stat_result:
        found = look(fd)
        monkeypatch.setattr(os, "fstat", look)
        log.rename(log.with_name("old"))
        os.mkfifo(log)
        return found

    monkeypatch.setattr(os, "fstat", exchanging)
    tail = FileTail(log)
    append(log.with_name("old"), b"after\n")
    assert lines_of(tail.poll()) == [b"after"]
    assert tail.problem == f"{log}: not a regular file"
    tail.close()


@given(
    st.lists(st.sampled_from([b"a", b"bb", b"\n", b"ccc\n", b"d" * 30]), max_size=40),
    st.integers(1, 50),
    st.integers(0, 40),
)
def test_cutting_gives_the_same_lines_however_the_data_comes(parts: list[bytes], step: int, bound: int) -> None:
    data = b"".join(parts)
    counters = SourceCounters()
    cutter = LineCutter(counters, max_line=1000)
    found = b"".join(cutter.feed(data[at : at + step]) for at in range(0, len(data), step)) + cutter.rest()
    assert found.rstrip(b"\n").split(b"\n") == data.rstrip(b"\n").split(b"\n")
    assert counters.skipped == {}
    short = LineCutter(SourceCounters(), max_line=bound)
    kept = b"".join(short.feed(data[at : at + step]) for at in range(0, len(data), step)) + short.rest()
    assert set(kept.splitlines()) <= {b"", *data.splitlines()}


def rename_on(log: Path) -> None:
    for number in range(19, 0, -1):
        old = log.with_name(f"{log.name}.{number}")
        if old.exists():
            old.rename(log.with_name(f"{log.name}.{number + 1}"))
    log.rename(log.with_name(f"{log.name}.1"))
    log.touch()


def copy_and_truncate(log: Path) -> None:
    shutil.copy(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)


@pytest.mark.slow
@pytest.mark.parametrize("rotate", [rename_on, copy_and_truncate])
@given(st.lists(st.sampled_from(["line", "half", "rotate", "look", "many"]), max_size=40))
def test_no_sequence_of_events_loses_or_repeats_a_line(
    rotate: Callable[[Path], None], tmp_path_factory: pytest.TempPathFactory, events: list[str]
) -> None:
    log = tmp_path_factory.mktemp("tail") / "peer.log"
    log.write_bytes(b"old\n")
    tail = FileTail(log, max_read=64 * 1024)
    written, rotations = 0, 0
    found: list[bytes] = []
    copied_at = -1  # a copy is known by what was read of the file before: something must have been
    for event in events:
        match event:
            case "line" | "many":
                for _ in range(300 if event == "many" else 1):
                    append(log, b"%d\n" % written)
                    written += 1
            case "half":
                append(log, b"%d" % written)
                found += lines_of(tail.poll())
                append(log, b"\n")
                written, rotations = written + 1, 0
            case "rotate" if rotate is rename_on and rotations < 15:
                rotate(log)
                rotations += 1
            case "rotate" if rotate is copy_and_truncate and len(found) > copied_at:
                copied_at = written
                rotate(log)
            case "look":
                found += lines_of(tail.poll())
                rotations = 0
    for _ in range(3):
        found += lines_of(tail.poll())
    assert found == [b"%d" % number for number in range(written)]
    tail.close()


WRITER = """
import os, sys
path, count = sys.argv[1], int(sys.argv[2])
file = open(path, "ab", buffering=0)
for number in range(count):
    line = b"%d\\n" % number
    cut = number % len(line)
    file.write(line[:cut])
    file.write(line[cut:])
    if number % 1500 == 1499:
        for old in range(19, 0, -1):
            if os.path.exists(f"{path}.{old}"):
                os.replace(f"{path}.{old}", f"{path}.{old + 1}")
        os.replace(path, f"{path}.1")
        file.close()
        file = open(path, "ab", buffering=0)
"""


def test_a_real_writer_that_rotates_while_it_is_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line twice and none lost, in order, whatever the interleaving of the two processes is.

    Looks are made without a pause here: between a rename and the new file are more than a deleted log is given.
    """
    monkeypatch.setattr("qioi.monitor.logs.tail._LINGER_DELETED", math.inf)
    count = 20_000
    tail = FileTail(log, max_read=20_000)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(log), str(count)])
    found: list[bytes] = []
    while writer.poll() is None:
        found += lines_of(tail.poll())
    assert writer.returncode == 0
    for _ in range(20):  # what is left is at most 20 * 20,000 bytes
        found += lines_of(tail.poll())
    assert found == [b"%d" % number for number in range(count)]
    assert tail.counters.rotations == 13
    tail.close()


def test_a_file_that_opens_but_cannot_be_read_is_a_problem_and_no_more(log: Path) -> None:
    """Such as one on a disk that fails. Loopback has no speed, and says so when the file is read (Linux sysfs)."""
    unreadable = Path("/sys/class/net/lo/speed")
    for tail in (FileTail(unreadable), FileTail(log)):
        log.unlink()
        log.symlink_to(unreadable)
        for _ in range(3):
            assert tail.poll() == []
            assert "cannot read: Invalid argument" in (tail.problem or "")
            assert open_files(unreadable.resolve().parent) <= 1
        tail.close()


def test_an_older_file_of_that_name_is_not_taken_for_the_copy(log: Path) -> None:
    append(log, b"one\ntwo\n")
    tail = FileTail(log)
    append(log, b"three\n")
    assert lines_of(tail.poll()) == [b"three"]
    log.with_name(f"{log.name}.1").write_bytes(b"old " * 100 + b"\n")  # longer than what was read of the log
    with log.open("r+b") as file:
        file.truncate()
    append(log, b"four\n")
    assert lines_of(tail.poll()) == [b"", b"four"]
    assert tail.counters.truncations == 1
