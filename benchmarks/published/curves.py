"""Curves of records that say how a cost grows: a panel for each kind of growth, with both axes as logarithms.

A picture carries the same digest as :mod:`published.pictures` gives those of bars.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from published import growth, spell
from published.pictures import BLUE, digest
from published.record import Form, Record
from qioi.lab.plots import INK, QUIET


class Curves(NamedTuple):
    """What is drawn of a record, and into which file of docs/figures: each column over each kind's sizes."""

    file: str
    record: str
    of: growth.Growth
    columns: tuple[str, ...]


CURVES = (
    Curves("growth.svg", "growth", growth.DAEMON, ("cpu", "memory")),
    Curves("growth-ledger.svg", "growth-ledger", growth.LEDGER, ("cpu", "memory")),
    Curves("growth-length.svg", "growth-length", growth.LENGTH, ("start", "memory", "disk")),
    Curves("growth-kubernetes.svg", "growth-kubernetes", growth.KUBERNETES, ("requests", "server", "node")),
)
#: Inches of a panel.
WIDTH, HEIGHT = 2.5, 2.0
#: Room below and above a curve, and how far apart two values are that are both labelled, as factors.
ROOM, APART = 3.0, 1.2


def draw(curves: Curves, record: Record, folder: Path) -> None:
    """Draw one picture into ``folder``: kinds of growth side by side, costs below each other; one kind has one row."""
    panels = [(kind, column) for column in curves.columns for kind in curves.of.titles]
    across = max(len(curves.of.titles), len(panels) if len(curves.of.titles) == 1 else 0)
    down = len(panels) // across
    with mpl.rc_context({"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "qioi", "text.color": INK}):
        figure = Figure(figsize=(WIDTH * across, HEIGHT * down))
        axes = figure.subplots(down, across, squeeze=False)
        for axis, (kind, column) in zip(axes.flat, panels, strict=True):
            panel(axis, record, kind, column)
            axis.set_xlabel(curves.of.titles[kind], color=QUIET)
        for column in curves.columns:
            same_scale([axis for axis, (_, its) in zip(axes.flat, panels, strict=True) if its == column])
        figure.tight_layout()
        metadata = {"Date": None, "Creator": None, "Description": digest(curves, record)}
        figure.savefig(folder / curves.file, metadata=metadata, bbox_inches="tight")


def panel(axis: Axes, record: Record, kind: str, key: str) -> None:
    """Draw one cost over the sizes of one kind of growth, with the least and the most of the repeats."""
    column = record.column(key)
    sizes = [int(row.key.split("-")[1]) for row in record.rows if row.key.startswith(f"{kind}-")]
    taken = [[one for one in record.values(f"{kind}-{size}", key) if one is not None] for size in sizes]
    middle = [statistics.median(values) for values in taken]
    axis.plot(sizes, middle, color=BLUE, marker="o", markersize=3, linewidth=1.2)
    for size, values in zip(sizes, taken, strict=True):
        axis.plot([size, size], [min(values), max(values)], color=INK, linewidth=1)
    exponents = record.values(f"{kind}-{sizes[-1]}", f"{key}_exponent")
    axis.set_title(f"{column.title}\n{grows(exponents)}", loc="left", color=INK, fontsize=8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.xaxis.set_minor_formatter(NullFormatter())
    label_values(axis, middle, column.form)
    axis.set_ylim(min(map(min, taken)) / ROOM, ROOM * max(map(max, taken)))
    axis.tick_params(colors=QUIET, labelcolor=INK, length=2)
    axis.tick_params(which="minor", length=0)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def grows(exponents: Sequence[float | None]) -> str:
    """Write the exponent."""
    known = [one for one in exponents if one is not None]
    return f"exponent {statistics.median(known):.2f}" if known else ""


def same_scale(axes: Sequence[Axes]) -> None:
    """Give panels of one cost as many decades each, so that slopes can be compared."""
    span = max(top / bottom for bottom, top in (axis.get_ylim() for axis in axes))
    for axis in axes:
        bottom, top = axis.get_ylim()
        room = (span * bottom / top) ** 0.5
        axis.set_ylim(bottom / room, top * room)


def label_values(axis: Axes, values: Sequence[float], form: Form) -> None:
    """Label the smallest and the largest size's values, or only the latter if they would overlap."""
    first, last = values[0], values[-1]
    axis.set_yticks([first, last] if max(first, last) > APART * min(first, last) else [last])
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: spell.one(value, form)))
    axis.yaxis.set_minor_formatter(NullFormatter())
