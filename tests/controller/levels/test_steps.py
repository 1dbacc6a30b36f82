"""Steps of a tenth, in files of whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.levels.steps import KEPT, Steps
from qioi.kernel.hierarchy import Hierarchy

#: Periods in which the double, or the half, is reached by tenths.
DOUBLE = 8
FILES = {version: Hierarchy(version, Path("/nowhere")) for version in (1, 2)}


def periods(step: Callable[[str, int], int], steps: Steps, file: Hierarchy, weight: int, found: int) -> list[int]:
    """Step by step from this weight until the file has another one; give what was asked for."""
    asked: list[int] = []
    while len(asked) < 2 * DOUBLE and (not asked or file.raw(asked[-1], found) == weight):
        steps.begin(0.0)
        asked.append(step("one", file.shares(weight, found)))
    return asked


@pytest.mark.parametrize("version", [1, 2])
@given(st.integers(3, 400), st.integers(4, 100))
def test_every_weight_moves_within_the_periods_of_a_double_and_by_a_tenth_or_one(
    version: int, weight: int, found: int
) -> None:
    file = FILES[version]
    share = file.shares(weight, found)
    for up in (True, False):
        steps = Steps()
        asked = periods(steps.up if up else steps.down, steps, file, weight, found)
        assert len(asked) <= DOUBLE
        moved = abs(file.raw(asked[-1], found) - weight)
        assert 1 <= moved <= 0.1 * weight + 1
        assert share / 2 - 1 <= asked[-1] <= share * 2 + 1


def test_who_was_moved_or_asks_for_the_other_way_begins_anew() -> None:
    steps = Steps()
    for force, asked in ((10, 11), (10, 12), (10, 13), (20, 22), (10, 11)):
        steps.begin(0.0)
        assert steps.up("one", force) == asked
    assert steps.down("one", 10) == 9
    assert steps.down("one", 10) == 8


@pytest.mark.parametrize(("later", "asked"), [(KEPT, 12), (KEPT + 1.0, 11)])
def test_steps_go_on_after_a_moment_without_one_and_begin_anew_after_more(later: float, asked: int) -> None:
    """The host was not full, or somebody foreign was there."""
    steps = Steps()
    steps.begin(0.0)
    assert steps.up("one", 10) == 11
    steps.begin(1.0)
    steps.begin(later)
    assert steps.up("one", 10) == asked


@pytest.mark.parametrize(("wanted", "then"), [(11, 12), (10, 11), (16, 12)])
def test_only_who_wants_less_than_the_step_begins_anew(wanted: int, then: int) -> None:
    """Its disk keeps it back, or it hardly waits: the step after that is one, too."""
    steps = Steps()
    steps.begin(0.0)
    assert steps.up("one", 10) == 11
    steps.answer([("other", 5), ("one", wanted)])
    steps.begin(0.0)
    assert steps.up("one", 10) == then
