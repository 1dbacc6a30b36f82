"""Patterns find the groups that are there, and no files, whatever is removed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from vanishing import vanishes

from qioi.kernel.patterns import fitting


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


@pytest.mark.parametrize("pattern", ["batch/*/*", "batch/*/**", "**/inner", "*/**/inner"])
def test_a_group_that_is_removed_meanwhile_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    for name in ("batch/a/inner", "batch/job", "batch/z/inner"):
        (tmp_path / name).mkdir(parents=True)
    vanishes(monkeypatch, tmp_path / "batch/job")
    assert {"batch/a/inner", "batch/z/inner"} <= set(fitting(tmp_path, pattern))
    assert not (tmp_path / "batch/job").exists()
