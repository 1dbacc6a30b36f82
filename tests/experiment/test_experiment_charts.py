"""The pictures of a report, from results as a run leaves them: what can be told apart, and what is said of gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toy_experiment import figures, filled, load, row

from qioi.experiment import catalogue
from qioi.experiment.charts import draw, lines, stack
from qioi.experiment.plan import Plan, make_plan
from qioi.experiment.spec import ExperimentSpec, FigureSpec
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary

pytestmark = pytest.mark.slow  # each draws pictures


def measured(spec: ExperimentSpec, pictures: list[FigureSpec], folder: Path) -> Summary:
    """A run in which every cell has all that these pictures are of."""
    plan = make_plan(spec, 2)
    names = {name for picture in pictures for name in (*picture.metrics, picture.x)} - {"throughput"}
    cells = {cell.key: figures(cell.key, 10.0, **dict.fromkeys(names, 1.0)) for cell in plan.cells}
    filled(Store(folder), plan, [cells])
    return Summary(Store(folder))


def test_every_line_of_a_bundled_picture_has_a_look_of_its_own(tmp_path: Path) -> None:
    for spec in catalogue.find_all([catalogue.ALL]):
        if not (pictures := [figure for figure in spec.figures if figure.kind == "lines"]):
            continue
        summary = measured(spec, pictures, tmp_path / spec.name)
        for picture in pictures:
            for axes in lines(summary, picture).axes:
                looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes.lines]
                assert looks, (spec.name, picture.title)
                assert len(set(looks)) == len(looks), (spec.name, picture.title)


def test_a_stack_says_what_a_cell_has_no_value_of(plan: Plan, tmp_path: Path) -> None:
    cells = row(100, 50, 100)
    for key, part in (("s1", "endorse"), ("s1", "commit"), ("qioi", "commit")):
        del cells[f"tiny.slow.{key}"].metrics[f"stage.{part}"]
    filled(Store(tmp_path / "run"), plan, [cells])
    (picture,) = [figure for figure in plan.spec.figures if figure.kind == "stack"]
    (axis,) = stack(Summary(Store(tmp_path / "run")), picture).axes
    assert [(text.get_text(), text.xy[1]) for text in axis.texts] == [("none", 1), ("commit: none", 2)]


def test_a_title_in_dollars_is_no_mathematics(document: dict[str, Any], tmp_path: Path) -> None:
    document["arms"][0]["title"] = "a host of $5, not of $6"
    plan = make_plan(load(document, tmp_path), 2)
    filled(Store(tmp_path / "run"), plan, [row(100, 50, 100)])
    (picture,) = [figure for figure in plan.spec.figures if figure.kind == "bars"]
    draw(Summary(Store(tmp_path / "run")), picture, tmp_path, "bars")
    assert ">a host of $5, not of $6<" in (tmp_path / "bars.svg").read_text()
