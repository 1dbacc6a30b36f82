"""What the bundled experiments judge can be seen in their windows."""

from __future__ import annotations

import pytest

from qioi.experiment import catalogue


@pytest.mark.parametrize("name", catalogue.names())
def test_an_open_loop_has_goals_about_what_was_due_in_its_window(name: str) -> None:
    """Throughput has an older backlog's commits in it, and in blocks of 500 in 8 s one block is 3.6 % of it."""
    spec = catalogue.find(name)
    for goal in spec.goals:
        load = spec.loads[goal.load or next(iter(spec.loads))]
        if load.driver == "load" and load.clients is None:
            assert not goal.metric.endswith("throughput"), goal.what
