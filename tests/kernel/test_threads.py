"""The threads of a group: none where it is gone, and an error where they cannot be listed now."""

from __future__ import annotations

from pathlib import Path

import pytest

from qioi.kernel import threads as listing
from qioi.kernel.threads import list_threads, threads_now, threads_of


def group(folder: Path, threads: str) -> Path:
    folder.mkdir()
    (folder / "cgroup.threads").write_text(threads)
    return folder


def test_threads_of_a_group_and_those_below(tmp_path: Path) -> None:
    outer = group(tmp_path / "g", "1\n2\n")
    group(outer / "h", "3\n")
    (outer / "went").mkdir()
    assert threads_now(outer) == threads_of(outer) == {b"1", b"2", b"3"}
    assert list_threads(str(outer), "cgroup.threads", 0) == {b"1", b"2"}
    assert threads_now(tmp_path / "gone") == threads_of(tmp_path / "gone") == set()


@pytest.mark.parametrize("below", ["", "h"])
def test_a_group_that_cannot_be_listed_now_is_not_one_without_threads(tmp_path: Path, below: str) -> None:
    outer = group(tmp_path / "g", "1\n")
    group(outer / "h", "3\n")
    (outer / below / "cgroup.threads").unlink()
    (outer / below / "cgroup.threads").mkdir()  # it can be opened, and not be read
    with pytest.raises(IsADirectoryError):
        threads_now(outer)
    assert threads_of(outer) == set()


def test_many_threads_are_read_to_the_end(tmp_path: Path) -> None:
    assert len(threads_now(group(tmp_path / "g", "".join(f"{tid}\n" for tid in range(30_000))))) == 30_000


def test_no_more_groups_below_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest count first, whatever is made below them."""
    monkeypatch.setattr(listing, "MAX_BELOW", 3)
    outer = group(tmp_path / "g", "0\n")
    for name in ("a", "b"):
        group(outer / name, f"{name}\n")
        for number in range(5):
            group(outer / name / f"h{number}", f"{name}{number}\n")
    found = threads_now(outer)
    assert len(found) == 4
    assert found > {b"0", b"a", b"b"}
