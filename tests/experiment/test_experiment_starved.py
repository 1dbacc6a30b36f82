"""What is made of a cell that did nothing, and of one that was never measured, in ratios and goals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_experiment import filled, load, row

from qioi.experiment.condense import CellFigures
from qioi.experiment.plan import make_plan
from qioi.experiment.store import Store
from qioi.experiment.summary import Spread, Summary, as_json
from qioi.experiment.tables import entry
from qioi.experiment.verdicts import claim, goal

GAIN = {"what": "a gain", "metric": "throughput", "arm": "qioi", "least": 1.5}


def summarise(folder: Path, document: dict[str, Any], goals: list[dict[str, Any]], *rows: Any) -> Summary:
    document["goals"] = goals
    store = Store(folder / "toy")
    filled(store, make_plan(load(document, folder), 2), list(rows))
    return Summary(store)


@pytest.mark.parametrize(
    ("beside", "ours", "reached", "often", "said"),
    [
        # The ledger committed nothing beside neighbours, and something with QiOi.
        ((0, 0, 0), Spread(math.inf, math.inf, math.inf, 3), True, 3, "from 0 (from 0 .. from 0)"),
        ((50, 0, 0), Spread(math.inf, 2.0, math.inf, 3), True, 3, "from 0 (2.0x .. from 0)"),
        ((50, 80, 0), Spread(2.0, 1.25, math.inf, 3), True, 2, "2.0x (1.250x .. from 0)"),
    ],
)
def test_a_ratio_to_0_is_more_than_any_bound(
    document: dict[str, Any],
    tmp_path: Path,
    beside: tuple[float, ...],
    ours: Spread,
    reached: bool,
    often: int,
    said: str,
) -> None:
    summary = summarise(tmp_path, document, [GAIN], *(row(100, one, 100) for one in beside))
    (outcome,), (verdict,) = summary.outcomes(), summary.verdicts()
    assert (outcome.ours, outcome.reached, outcome.often) == (ours, reached, often)
    assert goal(outcome, summary).ours == said
    assert (verdict.ours, verdict.agrees, verdict.word) == (ours, True, "agrees")
    assert "from 0" in claim(verdict, summary).ours
    assert entry(summary, summary.plan.cells[2], "throughput").ratio == said.split(" (")[0]


def test_a_ratio_to_0_is_a_word_in_json(document: dict[str, Any], tmp_path: Path) -> None:
    """Python would write Infinity, which is no JSON."""
    summary = summarise(tmp_path, document, [GAIN], *[row(100, 0, 100)] * 3)
    found = json.loads(json.dumps(as_json(summary), allow_nan=False))
    ratio = found["cells"]["tiny.slow.qioi"]["metrics"]["throughput"]["ratio"]
    assert ratio == {"median": "Infinity", "low": "Infinity", "high": "Infinity", "count": 3}
    assert found["goals"][0]["ours"] == found["papers"][0]["ours"] == ratio
    assert float(ratio["median"]) == math.inf


def test_of_0_to_0_there_is_no_ratio(document: dict[str, Any], tmp_path: Path) -> None:
    summary = summarise(tmp_path, document, [GAIN], row(100, 0, 0), row(100, 50, 100), row(100, 50, 100))
    (outcome,), (verdict,) = summary.outcomes(), summary.verdicts()
    assert outcome.ours == verdict.ours == Spread(2.0, 2.0, 2.0, 2)
    assert (outcome.reached, outcome.often, outcome.of) == (True, 2, 3)
    (tmp_path / "none").mkdir()
    (none,) = summarise(tmp_path / "none", document, [GAIN], row(100, 0, 0)).outcomes()
    assert (none.ours, none.reached) == (None, None)


@pytest.mark.parametrize("failed", [(0.0, 0.0, 2.0), (0.0, 0.0, 0.0)])
def test_a_failure_where_the_other_had_none_is_no_ratio(
    document: dict[str, Any], tmp_path: Path, failed: tuple[float, ...]
) -> None:
    """It would be the only one, and the median: of the repeats without a failure there is none beside it."""
    goals = [{"what": "no more failures", "metric": "failed", "arm": "qioi", "most": 1.0}]
    rows = []
    for count in failed:
        cells = row(100, 50, 100)
        for name, its in cells.items():
            own = {"failed": count if name == "tiny.slow.qioi" else 0.0}
            cells[name] = replace(its, metrics={**its.metrics, **own})
        rows.append(cells)
    (outcome,) = summarise(tmp_path, document, goals, *rows).outcomes()
    assert (outcome.ours, outcome.reached) == (None, None)


def timed(
    came: float | None, gone: float | None, *, early: bool | None = False, **metrics: float
) -> dict[str, CellFigures]:
    """Give a repeat whose protected cell has these times of its neighbours, before whom a share was raised or not."""
    cells = row(100, 50, 100)
    its = cells["tiny.slow.qioi"]
    cells["tiny.slow.qioi"] = replace(its, metrics={**its.metrics, **metrics}, came=came, gone=gone, early=early)
    return cells


@pytest.mark.parametrize(
    ("cells", "reached"),
    [
        (timed(1.0, 9.0, reaction=1.2, release=3.0), (True, True)),
        (timed(1.0, 9.0, reaction=4.0, release=9.0), (False, False)),
        (timed(1.0, 9.0, reaction=1.2), (True, False)),  # raised until the end
        (timed(1.0, 9.0), (False, False)),  # never raised
        (timed(1.0, None), (False, None)),  # neighbours that stay
        (timed(1.0, 9.0, early=True), (None, None)),  # raised before they came, for another reason
        (timed(1.0, 9.0, early=None), (None, None)),  # of earlier versions
        (timed(None, None, early=None), (None, None)),
    ],
)
def test_what_qioi_never_does_is_missed(
    document: dict[str, Any], tmp_path: Path, cells: dict[str, CellFigures], reached: tuple[bool | None, bool | None]
) -> None:
    """Nothing in the arm without QiOi has such a time either, so its lack there says nothing."""
    goals = [{"what": "soon", "metric": name, "arm": "qioi", "most": 3.0} for name in ("reaction", "release")]
    summary = summarise(tmp_path, document, goals, *[cells] * 3)
    outcomes = summary.outcomes()
    assert tuple(outcome.reached for outcome in outcomes) == reached
    words = {True: "reached", False: "not reached", None: "not measured"}
    assert [goal(outcome, summary).word for outcome in outcomes] == [words[one] for one in reached]
