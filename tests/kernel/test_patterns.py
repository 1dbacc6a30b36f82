"""Patterns find the groups that are there, and no files, whatever is removed meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from vanishing import vanishes

from qioi.kernel.patterns import fitting


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders in each other, which pytest could not remove."""
    groups = ["a" + "/a" * depth for depth in range(sys.getrecursionlimit() + 50)]
    for group in groups:
        (tmp_path / group).mkdir()
    yield tmp_path, groups
    for group in reversed(groups):
        (tmp_path / group).rmdir()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("batch", {"batch"}),
        ("batch/*", {"batch/a", "batch/b", "batch/.c"}),
        ("batch/cpu.weight", set()),
        ("*/*/inner", {"batch/a/inner"}),
        ("batch/**", {"batch", "batch/a", "batch/a/inner", "batch/b", "batch/.c"}),
        ("**", {"batch", "batch/a", "batch/a/inner", "batch/b", "batch/.c"}),
        ("batch/[ab]", {"batch/a", "batch/b"}),
        ("none/*", set()),
    ],
)
def test_what_a_pattern_fits(tmp_path: Path, pattern: str, expected: set[str]) -> None:
    for name in ("batch/a/inner", "batch/b", "batch/.c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "batch/cpu.weight").touch()
    assert set(fitting(tmp_path, pattern)) == expected


def test_a_tree_may_be_deeper_than_calls_may_nest(deep: tuple[Path, list[str]]) -> None:
    """Whoever has a group of his own may make any below it."""
    folder, groups = deep
    assert list(fitting(folder, "**")) == groups
    assert list(fitting(folder, "**/a")) == groups


@pytest.mark.parametrize("pattern", ["batch/*/*", "batch/*/**", "**/inner", "*/**/inner"])
def test_a_group_that_is_removed_meanwhile_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    for name in ("batch/a/inner", "batch/job/inner", "batch/z/inner"):  # one that has none below it is not listed
        (tmp_path / name).mkdir(parents=True)
    vanishes(monkeypatch, tmp_path / "batch/job")
    assert {"batch/a/inner", "batch/z/inner"} <= set(fitting(tmp_path, pattern))
    assert not (tmp_path / "batch/job").exists()


def test_groups_that_have_none_below_them_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are nearly all that there are, with fifty files each."""
    for number in range(100):
        (tmp_path / f"batch/job{number}").mkdir(parents=True)
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    assert len(list(fitting(tmp_path, "**"))) == 101
    assert len(list(fitting(tmp_path, "batch/*/*"))) == 0
    assert len(listed) <= 4
