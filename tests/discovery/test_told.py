"""What Docker was told, on a disk: durable as one file each, strict when read, and never in the way."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from planted import KINDS, plant

from qioi.controller.guard.journal import Entry
from qioi.controller.levers.lever import GroupId
from qioi.discovery.engine_records import possible
from qioi.discovery.told import Told, ToldFiles
from qioi.discovery.weights import linear, quadratic
from qioi.model import Owner

OWNER = Owner("docker", "ab12", "/run/docker.sock")
ENTRY = Entry("docker/ab12", "cpu.shares", GroupId(5, 6), 1024, (2048, 4096), OWNER)


def test_stored_read_and_forgotten(tmp_path: Path) -> None:
    told = ToldFiles(tmp_path / "disk")
    assert (told.any(), told.load(), told.of(OWNER)) == (False, ([], []), None)
    told.store(Told(ENTRY, 0))
    other = replace(ENTRY, owner=replace(OWNER, name="cd34"))
    told.store(Told(other, 512))
    assert told.any()
    assert told.of(OWNER) == Told(ENTRY, 0)
    assert ToldFiles(tmp_path / "disk").load() == ([ENTRY, other], [])
    told.forget(OWNER)
    told.forget(OWNER)
    assert told.load() == ([other], [])


def test_a_name_leads_nowhere_else(tmp_path: Path) -> None:
    told = ToldFiles(tmp_path)
    told.store(Told(replace(ENTRY, owner=replace(OWNER, name="../../x")), 0))
    assert [one.parent for one in tmp_path.rglob("*") if one.is_file()] == [told.folder]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-5],
        lambda text: text.replace(b"1024", b"1025"),
        lambda text: text.splitlines(keepends=True)[0],
        lambda text: b"",
        lambda text: b"\xff" * 100,
    ],
    ids=["cut", "changed", "head alone", "empty", "noise"],
)
def test_a_damaged_file_is_named_and_set_aside_once(tmp_path: Path, spoil: object) -> None:
    told = ToldFiles(tmp_path)
    told.store(Told(ENTRY, 0))
    good = replace(ENTRY, owner=replace(OWNER, name="cd34"))
    told.store(Told(good, 0))
    (file,) = told.folder.glob("docker-ab12")
    file.write_bytes(spoil(file.read_bytes()))  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"."):
        told.of(OWNER)
    entries, (problem,) = told.load()
    assert entries == [good]
    assert str(file) in problem
    assert told.load() == ([good], [])


def test_a_damaged_file_that_cannot_be_set_aside_is_named_and_stays(tmp_path: Path) -> None:
    told = ToldFiles(tmp_path)
    told.store(Told(ENTRY, 0))
    good = replace(ENTRY, owner=replace(OWNER, name="cd34"))
    told.store(Told(good, 0))
    (file,) = told.folder.glob("docker-ab12")
    file.write_bytes(b"")
    file.with_name(f"{file.name}.damaged").mkdir()  # in the way, also of root, as a disk that is read-only
    for _ in range(2):
        entries, (problem,) = told.load()
        assert entries == [good]
        assert f"{file}: half-written or damaged" in problem
        assert "it cannot be set aside: Is a directory" in problem


def test_a_file_that_a_crash_left_half_made_is_no_record_and_does_not_stay(tmp_path: Path) -> None:
    told = ToldFiles(tmp_path)
    told.store(Told(ENTRY, 0))
    (file,) = told.folder.iterdir()
    file.rename(file.with_name(f"{file.name}.new"))
    assert told.load() == ([], [])
    assert not told.any()


def test_a_disk_that_takes_nothing_keeps_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ToldFiles(tmp_path)
    told.store(Told(ENTRY, 0))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qioi.discovery.told.write_file", full)
    with pytest.raises(OSError, match="No space"):
        told.store(Told(replace(ENTRY, ours=(8192,)), 0))
    assert told.load() == ([ENTRY], [])


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (target := tmp_path / "target").write_text("whole\n")
    told = ToldFiles(tmp_path)
    told.store(Told(ENTRY, 0))
    (file,) = told.folder.iterdir()
    file.with_name(f"{file.name}.new").symlink_to(target)
    told.store(Told(replace(ENTRY, ours=(8192,)), 0))
    assert target.read_text() == "whole\n"
    assert told.load() == ([replace(ENTRY, ours=(8192,))], [])


@pytest.mark.timeout(10)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_planted_as_a_record_is_not_read(tmp_path: Path, kind: str) -> None:
    told = ToldFiles(tmp_path)
    told.store(Told(ENTRY, 0))
    (file,) = told.folder.iterdir()
    file.unlink()
    plant(file, kind)
    entries, problems = told.load()
    assert (entries, problems[0]) == ([], f"{file}: not a regular file: this record stays as it is")
    assert ENTRY.owner is not None
    with pytest.raises(OSError, match="not a regular file"):
        told.of(ENTRY.owner)


def test_a_folder_in_the_place_of_the_next_record_is_said(tmp_path: Path) -> None:
    told = ToldFiles(tmp_path)
    told.store(Told(ENTRY, 0))
    (file,) = told.folder.iterdir()
    file.with_name(f"{file.name}.new").mkdir()
    with pytest.raises(OSError, match=r"\.new is in the way: Is a directory"):
        told.store(Told(ENTRY, 0))


def test_on_cgroup_v2_a_value_may_have_been_made_by_either_formula() -> None:
    entry = replace(ENTRY, file="cpu.weight")
    for convert in (linear, quadratic):
        assert {convert(shares) for shares in possible(entry, (100, 400))} >= {100, 400}
    assert possible(ENTRY, (100, 400)) == {100, 400}
