"""How long a slice should be."""

from __future__ import annotations

import pytest
from toy_scheduler import DEFAULT

from qioi.controller.levers.slices import size


@pytest.mark.parametrize(
    ("run", "before", "expected"),
    [
        (0.00005, None, 100_001),
        (0.00001, None, 100_001),
        (0.0002, None, 400_001),
        (0.0002, 350_000, 350_000),
        (0.0002, 200_000, 400_001),
        (0.0012, None, None),  # longer than the default serves: nothing is to be gained
    ],
)
def test_sized_by_what_a_component_runs_at_a_stretch(run: float, before: int | None, expected: int | None) -> None:
    assert size(run, DEFAULT, 100_000, before) == expected
