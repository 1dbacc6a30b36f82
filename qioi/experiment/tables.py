"""Tables of medians on an experiment's page: a row per cell, with the ratio to the cell that it is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qioi.experiment.charts import heading
from qioi.experiment.metrics import metric
from qioi.experiment.plan import Cell
from qioi.experiment.spec import FigureSpec
from qioi.experiment.summary import ABSOLUTE, Spread, Summary
from qioi.lab.result_table import short, times


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a table: the median, its spread, its ratio to the cell that it is compared with, and to alone."""

    value: str
    spread: str = ""
    ratio: str = ""
    grade: str = ""
    alone: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell's line in a table; ``base`` names the cell that its ratios are to."""

    title: str
    base: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of medians: a row a cell."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]


def table(summary: Summary, figure: FigureSpec) -> Table:
    """Lay metrics out, a row a cell."""
    cells = summary.selected(figure)
    present = [name for name in figure.metrics if any(summary.value(cell, name) for cell in cells)]
    headings = tuple(heading(summary, name) for name in present)
    rows = tuple(
        Row(summary.title(cell), base_title(summary, cell), tuple(entry(summary, cell, name) for name in present))
        for cell in cells
    )
    return Table(figure.title, headings, rows)


def base_title(summary: Summary, cell: Cell) -> str:
    """Name the arm that a cell is compared with."""
    return next((one.arm.title for one in summary.plan.cells if one.key == cell.base), "")


def entry(summary: Summary, cell: Cell, name: str) -> Entry:
    """Format one value."""
    value, ratio = summary.value(cell, name), summary.ratio(cell, name)
    if value is None:
        return Entry("-")
    several = f"{short(value.low)} .. {short(value.high)}" if value.count > 1 else ""
    several = ", ".join(filter(None, (several, some_of(value, summary))))
    if name in ABSOLUTE:
        return Entry(short(value.median), several)
    alone = of_alone(summary, cell, name)
    if ratio is None:  # what it is compared with was starved and has none; alone it had one
        return Entry(short(value.median), several, alone=alone)
    graded = grade(name, ratio) if summary.trusted and ratio.count == len(summary.counted) else ""
    return Entry(short(value.median), several, ratio_of(ratio, summary), graded, alone)


def ratio_of(ratio: Spread, summary: Summary) -> str:
    """Format a ratio, with the number of its repeats where some have none: either of its two sides may be missing."""
    some = some_of(ratio, summary)
    return f"{multiple(ratio.median)} ({some})" if some else multiple(ratio.median)


def multiple(ratio: float) -> str:
    """Format a ratio; one to 0 is more than any number."""
    return "from 0" if math.isinf(ratio) else times(ratio)


def some_of(value: Spread, summary: Summary) -> str:
    """Say in how many of the repeats there was a value; a starved ledger has no latency."""
    of = len(summary.counted)
    return f"in {value.count} of {of}" if value.count < of else ""


def of_alone(summary: Summary, cell: Cell, name: str) -> str:
    """Give the ratio to the ledger alone too, where a cell is compared with another one."""
    alone = f"{cell.network_name}.{cell.load_name}.{summary.alone.name}"
    if summary.alone.neighbours.count or cell.base in {None, alone} or not metric(name).better:
        return ""
    ratio = summary.ratio(cell, name, alone)
    return ratio_of(ratio, summary) if ratio else ""


def grade(name: str, ratio: Spread) -> str:
    """Colour a ratio that all repeats put on the same side of 1 by more than a tenth."""
    better = metric(name).better
    if not better or (ratio.low < 1 < ratio.high) or 0.9 <= ratio.median <= 1.1:
        return ""
    return "good" if (ratio.median > 1) == (better > 0) else "bad"
