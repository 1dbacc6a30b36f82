"""In which order a run measures its cells, and what the page says of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from toy_experiment import filled, row

from qioi.experiment.condense import CellFigures
from qioi.experiment.method import method, warnings
from qioi.experiment.plan import Cell, Plan
from qioi.experiment.session import Session, is_backward
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary
from qioi.experiment.system import NetworkSpec

ONE_WAY = "All repeats that count ran the cells in one order"


class Quick(Session):
    """A session that measures nothing; by number, its repeats have this much steal."""

    steal: Mapping[int, float]

    @contextlib.contextmanager
    def _lab(self, spec: NetworkSpec, logs: Path) -> Iterator[tuple[Any, Any]]:
        yield None, None

    def _maxima(self) -> dict[str, float]:
        return {}

    def _cell(self, number: int, label: str, cell: Cell, *_: object) -> CellFigures:
        return row(100, 50, 100, self.steal.get(number, 0.0))[cell.key]


@pytest.mark.parametrize("stop_after", [0, 1, 2, 3])
def test_quiet_repeats_run_both_ways_whatever_lies_between(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    """Also in a run that is gone on with: by their numbers repeats 1, 3 and 5 would all run forward."""
    monkeypatch.setattr("qioi.experiment.session.calibrate", lambda _: None)
    store = Store(tmp_path / "toy")
    session = Quick(plan, store, tmp_path, 1024, lambda *_: None)
    session.steal = {2: 9.0, 4: 9.0}
    if stop_after:
        measure = session._repeat

        def interrupted(number: int, *rest: Any) -> Any:
            if number > stop_after:
                raise KeyboardInterrupt
            return measure(number, *rest)

        monkeypatch.setattr(session, "_repeat", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.run()
        monkeypatch.undo()
        monkeypatch.setattr("qioi.experiment.session.calibrate", lambda _: None)
    session.run(resume=bool(stop_after))
    forward = [cell.key for cell in plan.cells]
    summary = Summary(store)
    assert [repeat.number for repeat in summary.counted] == [1, 3, 5]
    assert [list(repeat.cells) for repeat in summary.counted] == [forward, forward[::-1], forward[::-1]]
    assert dict(method(summary))["Repeats"] == "5 finished, medians of 3 (number 1, 3, 5; 1 forward, 2 backward)"
    assert not any(text.startswith(ONE_WAY) for text in warnings(summary))


def test_repeats_that_all_ran_one_way_are_said(plan: Plan, tmp_path: Path) -> None:
    """As earlier versions left them."""
    rows = [row(100, 50, 100, steal) for steal in (0.0, 9.0, 0.0)]
    filled(Store(tmp_path / "toy"), plan, rows)
    summary = Summary(Store(tmp_path / "toy"))
    assert any(text.startswith(ONE_WAY) for text in warnings(summary))
    assert "2 forward, 0 backward" in dict(method(summary))["Repeats"]


@pytest.mark.parametrize(
    ("ran", "backward"),
    [  # plus: forward, minus: backward; in upper case where it was quiet
        ("", False),
        ("P", True),
        ("p", True),
        ("pm", False),  # nothing is quiet yet: by turns, since all of them may come to count
        ("pmpm", False),
        ("pM", False),
        ("Pm", True),
        ("PmM", False),
        ("PMp", True),
        ("PMpm", False),
        ("PMP", True),
    ],
)
def test_the_next_repeat_runs_as_fewer_quiet_ones_did_and_else_not_as_the_last(
    plan: Plan, tmp_path: Path, ran: str, backward: bool
) -> None:
    store = Store(tmp_path / "toy")
    cells = [row(100, 50, 100, 0.0 if one.isupper() else 9.0) for one in ran]
    filled(
        store, plan, [its if one in "pP" else dict(reversed(its.items())) for one, its in zip(ran, cells, strict=True)]
    )
    assert is_backward(plan, store.repeats() if ran else []) == backward
