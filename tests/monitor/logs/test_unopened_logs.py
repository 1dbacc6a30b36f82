"""A log that is there and cannot be opened for a while: what was written until then is old, and is not read."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from descriptors import open_files
from followed_log import append

from qioi.monitor import FileTail


@contextmanager
def no_room_for_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def failing_disk() -> Iterator[None]:
    def fail(*_: Any) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", fail)
        yield


@pytest.mark.parametrize(
    ("trouble", "problem"),
    [(no_room_for_files, "Too many open files"), (failing_disk, "cannot read: Input/output error")],
)
def test_what_was_written_before_it_could_be_opened_is_not_read(log: Path, trouble: Any, problem: str) -> None:
    with trouble():
        tail = FileTail(log)
        for _ in range(2):
            assert tail.poll() == []
            assert tail.problem == f"{log}: {problem}"
    append(log, b"also before\nhal")
    assert tail.poll() == []
    append(log, b"f\nnew\n")
    assert tail.poll() == [b"half\nnew\n"]
    assert tail.problem is None
    tail.close()
    assert open_files(log.parent) == 0


def test_one_that_takes_its_place_is_read_from_its_start(log: Path) -> None:
    with no_room_for_files():
        tail = FileTail(log)
    log.unlink()
    assert tail.poll() == []
    log.write_bytes(b"new\n")
    assert tail.poll() == [b"new\n"]
    tail.close()


def test_one_that_is_back_after_its_folder_was_out_of_reach_is_not_read_again(tmp_path: Path) -> None:
    folder, away = tmp_path / "logs", tmp_path / "away"
    folder.mkdir()
    log = folder / "peer.log"
    log.write_bytes(b"before\n")
    tail = FileTail(log)
    folder.rename(away)
    folder.write_bytes(b"no folder")
    for _ in range(700):
        assert tail.poll() == []
    assert tail.problem == f"{log}: Not a directory"
    assert open_files(tmp_path) == 0
    folder.unlink()
    away.rename(folder)
    assert tail.poll() == []
    append(log, b"new\n")
    assert tail.poll() == [b"new\n"]
    tail.close()
