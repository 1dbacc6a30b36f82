"""Files of real control groups, kept open: a group that is gone, or replaced, is never taken for the one before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from descriptors import open_files
from running import Site

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Result
from qioi.controller.levers.files import Files
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.files import KernelFiles
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Owner


def test_a_file_is_opened_once_and_read_anew_each_time(tmp_path: Path) -> None:
    before = open_files(tmp_path)
    files, file = KernelFiles(most=1), tmp_path / "value"
    file.write_text("1\n")
    assert files.read(str(file)) == b"1\n"
    assert files.keeps(str(file))
    file.write_text("22\n")
    assert files.read(str(file)) == b"22\n"
    other = tmp_path / "other"
    other.write_text("3\n")
    assert files.read(str(other)) == b"3\n"  # beyond the bound: opened each time
    assert not files.keeps(str(other))
    with pytest.raises(FileNotFoundError):
        files.read(str(tmp_path / "none"))
    with pytest.raises(IsADirectoryError):
        files.read(str(tmp_path))
    assert open_files(tmp_path) == before + 1
    files.close()
    files.close()
    assert open_files(tmp_path) == before


def test_what_nobody_reads_any_more_is_closed(tmp_path: Path) -> None:
    files = KernelFiles(most=9)
    for name in ("read", "forgotten"):
        (tmp_path / name).write_text("1\n")
        files.read(str(tmp_path / name))
    for _ in range(60):
        files.read(str(tmp_path / "read"))
        files.sweep()
    assert files.keeps(str(tmp_path / "read"))
    assert not files.keeps(str(tmp_path / "forgotten"))
    files.close()


class One(NamedTuple):
    """A group, and who holds it and keeps its file open."""

    guard: Guard
    path: str
    folder: Path


@pytest.fixture
def one(site: Site, tmp_path: Path) -> Iterator[One]:
    path, files = f"{site.parent}/p", KernelFiles()
    folder = site.hierarchy.folder(path)
    folder.mkdir()
    yield One(Guard(site.hierarchy, Files(site.hierarchy), Journal(tmp_path), files=files), path, folder)
    folder.rmdir()
    files.close()


def test_a_group_that_was_replaced_is_held_as_the_new_one(site: Site, one: One) -> None:
    guard, path, folder = one
    found = guard.look(path)
    guard.apply({path: 4 * found})
    assert guard.look(path) == 4 * found
    folder.rmdir()
    with pytest.raises(CgroupGoneError):
        guard.shares(path)
    with pytest.raises(CgroupGoneError):
        guard.look(path)
    guard.drop(path)
    folder.mkdir()
    assert guard.look(path) == guard.found(path) == found
    folder.rmdir()
    folder.mkdir()  # between two looks
    (folder / site.hierarchy.file).write_text(str(3 * found))
    assert guard.look(path) == guard.found(path) == (3 * found if site.hierarchy.version == 1 else 1024)
    assert guard.changed() == ()


def test_an_owner_that_is_known_late_is_that_of_the_group_that_is_open(one: One) -> None:
    guard, path, _ = one
    found = guard.look(path)
    assert guard.look(path, Owner("an", "owner")) == guard.found(path) == found
    assert guard.owners() == (Owner("an", "owner"),)


def test_a_group_that_is_replaced_before_it_is_opened_is_held_as_the_new_one(one: One) -> None:
    guard, path, folder = one
    found = guard.hold(path)
    folder.rmdir()
    folder.mkdir()
    with pytest.raises(CgroupGoneError):
        guard.shares(path)
    guard.look(path)
    assert [outcome.result for outcome in guard.apply({path: 2 * found})] == [Result.OK]
    guard.restore()


def test_what_no_kernel_would_say_is_an_error_of_that_group(tmp_path: Path) -> None:
    hierarchy, file = Hierarchy(2, tmp_path), tmp_path / "p" / "cpu.weight"
    file.parent.mkdir()
    file.write_text("100\n")
    files = KernelFiles()
    guard = Guard(hierarchy, Files(hierarchy), Journal(tmp_path), files=files)
    guard.hold("p")
    file.write_text("many\n")
    with pytest.raises(CgroupError, match=r"cpu\.weight: no number"):
        guard.shares("p")
    files.forget(str(file))
    file.unlink()
    with pytest.raises(CgroupError, match=r"has no cpu\.weight"):
        guard.shares("p")
    files.close()
