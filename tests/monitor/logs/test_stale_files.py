"""A log whose open file can no longer be asked for anything: NFS's stale handle, or a FUSE daemon that has died."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from descriptors import open_files
from followed_log import append

from qioi.monitor import FileTail

Stale = Callable[[Path], None]
PROBLEM = "cannot read: Stale file handle"


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> Stale:
    """Have calls fail for the files that are there by then; they are closed all the same (close(2), NFS and FUSE)."""
    inodes: set[tuple[int, int]] = set()
    fstat, really_close = os.fstat, os.close

    def is_stale(fd: int) -> bool:
        found = fstat(fd)
        return (found.st_dev, found.st_ino) in inodes

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(fd: int, *rest: Any) -> Any:
            if is_stale(fd):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return call(fd, *rest)

        return wrapped

    def close(fd: int) -> None:
        failed = is_stale(fd)
        really_close(fd)
        if failed:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    for name in ("fstat", "pread", "lseek"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    monkeypatch.setattr(os, "close", close)

    def make(path: Path) -> None:
        found = path.stat()
        inodes.add((found.st_dev, found.st_ino))

    return make


def test_it_is_a_problem_until_the_name_is_another_files(log: Path, stale: Stale) -> None:
    tail = FileTail(log)
    append(log, b"one\n")
    stale(log)
    for _ in range(20):
        assert tail.poll() == []
        assert PROBLEM in (tail.problem or "")
    log.rename(log.with_name("peer.log.2"))
    log.with_name("peer.log.1").write_bytes(b"between\n")
    log.write_bytes(b"two\n")
    assert b"".join(tail.poll()) == b"two\n"  # what stands between is not known to be new
    for _ in range(12):
        append(log, b"more\n")
        assert tail.poll() == [b"more\n"]
    assert tail.problem is None
    assert open_files(log.parent) == 1
    tail.close()


def test_a_file_that_is_new_and_stale_is_left_alone(log: Path, stale: Stale) -> None:
    tail = FileTail(log)
    log.rename(log.with_name("peer.log.1"))
    log.write_bytes(b"one\n")
    stale(log)
    assert tail.poll() == []
    assert "Stale file handle" in (tail.problem or "")
    assert open_files(log.parent) == 1
    tail.close()


def test_a_copy_is_given_up(log: Path, stale: Stale) -> None:
    tail = FileTail(log, max_read=16)
    append(log, b"a line\n" * 10)
    tail.poll()
    copy = log.with_name("peer.log.1")
    copy.write_bytes(log.read_bytes())
    log.write_bytes(b"")
    tail.poll()
    assert open_files(log.parent) == 2
    stale(copy)
    append(log, b"next\n")
    assert tail.poll() == [b"next\n", b"a li\n"]  # what was read of it is all that will come
    assert open_files(log.parent) == 1
    tail.close()


def test_where_too_much_waits_none_of_it_is_passed_over(log: Path, stale: Stale) -> None:
    tail = FileTail(log, max_read=16, max_backlog=64)
    append(log, b"a line\n" * 100)
    stale(log)
    assert tail.poll() == []
    assert tail.gap == 0
    tail.close()
    assert open_files(log.parent) == 0
