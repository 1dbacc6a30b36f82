"""What the bundled experiments judge can be seen in their windows."""

from __future__ import annotations

import pytest

from qioi.experiment import catalogue
from qioi.experiment.method import SETTLED, settles
from qioi.experiment.plan import make_plan
from qioi.experiment.standard import at_standard
from qioi.lab.arms import BLOCK


@pytest.mark.parametrize("name", catalogue.names())
def test_an_open_loop_has_goals_about_what_was_due_in_its_window(name: str) -> None:
    """Throughput has an older backlog's commits in it, and in blocks of 500 in 8 s one block is 3.6 % of it."""
    spec = catalogue.find(name)
    due = {(goal.network, goal.arm) for goal in spec.goals if goal.metric == "goodput"}
    for goal in spec.goals:
        load = spec.loads[goal.load or next(iter(spec.loads))]
        if goal.metric.endswith("throughput") and load.driver == "load" and load.clients is None:
            assert spec.networks[goal.network or next(iter(spec.networks))].mode == "stream", goal.what
            assert (goal.network, goal.arm) in due, goal.what


@pytest.mark.parametrize("name", catalogue.names())
def test_a_window_has_whole_timers_where_too_few_clients_fill_a_block(name: str) -> None:
    """A lone client commits once in 2 s. In 5 s it has 2 commits or 3, and 2 are 20 % less than it does."""
    whole = catalogue.find(name)
    short, timing = at_standard(whole)
    for spec, duration in ((whole, whole.timing.duration), (short, timing.duration)):
        timers = {
            network.timeout
            for network in spec.networks.values()
            for load in spec.loads.values()
            if network.mode == "block" and load.clients is not None and load.clients < (network.messages or BLOCK)
        }
        assert [duration % timer for timer in timers if timer] == [0.0] * len(timers)


@pytest.mark.parametrize("name", catalogue.names())
def test_every_bundled_experiment_lets_the_neighbours_coming_settle(name: str) -> None:
    plan = make_plan(catalogue.find(name), 2)
    assert all(cell.timing.settling >= SETTLED for cell in plan.cells if settles(cell))
