"""Groups that an operator calls his own are clients: found by patterns, as they come and go."""

from __future__ import annotations

from pathlib import Path

import pytest
from vanishing import vanishes

from qioi.discovery import mine as own
from qioi.discovery.mine import OwnGroups
from qioi.model import Component, Role


def test_groups_that_fit_are_clients_as_long_as_they_are_there(tmp_path: Path) -> None:
    for name in ("load/a", "load/b/inner", "batch/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "load" / "cpu.shares").write_text("1024\n")
    mine = OwnGroups(tmp_path, ["load/*", "load/b/*", "none/*"], every=0.0)
    found = mine.found()
    assert found.components == (
        Component("load/a", Role.CLIENT, "load/a"),
        Component("load/b", Role.CLIENT, "load/b"),  # what it uses has the inner one's in it
    )
    assert found.problems == {"mine none/*": "no control group fits"}
    assert mine.found() is found
    (tmp_path / "load" / "a").rmdir()
    assert [one.name for one in mine.found().components] == ["load/b"]


def test_a_group_that_is_removed_during_a_look_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("load/a/inner", "load/job/inner", "load/z/inner"):
        (tmp_path / name).mkdir(parents=True)
    vanishes(monkeypatch, tmp_path / "load/job")
    found = OwnGroups(tmp_path, ["load/*/*"]).found()
    assert [one.name for one in found.components] == ["load/a/inner", "load/z/inner"]


def test_patterns_are_not_looked_for_in_every_period(tmp_path: Path) -> None:
    mine = OwnGroups(tmp_path, ["a"], every=3600.0)
    assert mine.found().components == ()
    (tmp_path / "a").mkdir()
    assert mine.found().components == ()


def test_no_more_groups_than_there_is_room_for(tmp_path: Path) -> None:
    for number in range(201):
        (tmp_path / f"g{number}").mkdir()
    found = OwnGroups(tmp_path, ["*"]).found()
    assert len(found.components) == 200
    assert found.problems == {"mine": "201 groups fit, the first 200 are taken"}


def test_a_pattern_that_fits_too_many_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "MOST_OF_A_PATTERN", 3)
    for number in range(9):
        (tmp_path / "load" / f"g{number}").mkdir(parents=True)
    (tmp_path / "batch").mkdir()
    found = OwnGroups(tmp_path, ["load/*", "batch"]).found()
    assert len(found.components) == 4
    assert found.problems == {"mine load/*": "more than 3 groups fit, others are left out"}
