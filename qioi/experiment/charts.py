"""The pictures of a run, each as SVG and as PNG. Matplotlib is imported by this module alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator

from qioi.experiment.condense import CellFigures
from qioi.experiment.drivers import QUARTILES
from qioi.experiment.metrics import SERIES, metric
from qioi.experiment.plan import Cell
from qioi.experiment.spec import PANELS, FigureSpec
from qioi.experiment.summary import Spread, Summary
from qioi.experiment.system import BENCHED
from qioi.experiment.whole import replacing
from qioi.lab.plots import COLOURS, GRID, INK, QUIET, add_legend, finish_scale, mark_decades
from qioi.lab.result_table import short

#: Okabe and Ito's palette, which people with colour-blindness can distinguish too.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#7b8794")
#: The marker and the dash of lines; the next ones are taken where there are more lines than colours.
LOOKS = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))
WIDTH = 9.9
#: How numbers are spelled, and where the curves' names stand, as a part of the width.
NUMBERS = ",g"
LEGEND_LEFT = 0.91


@dataclass(frozen=True, slots=True)
class Picture:
    """One drawn figure: its caption and the stem of its two files."""

    title: str
    stem: str


def draw(summary: Summary, spec: FigureSpec, folder: Path, stem: str) -> Picture:
    """Draw one figure into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(
        {
            "font.family": "DejaVu Sans",
            "font.size": 9,
            "svg.fonttype": "none",
            "svg.hashsalt": "qioi",  # so that the same figures are the same file when they are drawn again
            "text.color": INK,
            "text.parse_math": False,  # a title may have several $
        }
    ):
        drawn = {"bars": bars, "lines": lines, "time": over_time, "stack": stack, "boxes": boxes}
        figure = drawn[spec.kind](summary, spec)
        with replacing(folder / f"{stem}.svg") as new:
            figure.savefig(new, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
        with replacing(folder / f"{stem}.png") as new:
            figure.savefig(new, format="png", dpi=150, bbox_inches="tight", metadata={"Software": None})
    return Picture(spec.title, stem)


def bars(summary: Summary, spec: FigureSpec) -> Figure:
    """Draw a panel per metric and a bar per cell, with the minimum and the maximum of the repeats."""
    cells = summary.selected(spec)
    figure = Figure(figsize=(WIDTH, 0.9 + 0.3 * len(cells)))
    axes = figure.subplots(1, len(spec.metrics), sharey=True, squeeze=False)[0]
    names = [summary.title(cell, cells) for cell in cells]
    for axis, name in zip(axes, spec.metrics, strict=True):
        found = [summary.value(cell, name) for cell in cells]
        widths = [value.median if value else 0.0 for value in found]
        colours = [PALETTE[colour_of(summary, cell) % len(PALETTE)] for cell in cells]
        axis.barh(range(len(cells)), widths, color=colours, height=0.66)
        for place, value in enumerate(found):
            note(axis, place, value)
        axis.set_yticks(range(len(cells)), names)
        axis.set_title(heading(summary, name), loc="left", fontsize=9, color=INK)
        axis.set_xlim(0, 1.28 * max([value.high for value in found if value] or [1.0]) or 1.0)
        tidy(axis, "x")
        # A number at the very end would run into the next panel's first.
        last = 0.93 * axis.get_xlim()[1]
        axis.xaxis.set_major_locator(MaxNLocator(3))
        axis.xaxis.set_major_formatter(partial(number_up_to, last))
    axes[0].invert_yaxis()
    figure.subplots_adjust(wspace=0.08)
    return figure


def number_up_to(last: float, number: float, _: int | None = None) -> str:
    """Format a number of an axis; beyond ``last`` there is no room for one."""
    return f"{number:{NUMBERS}}" if number <= last else ""


def note(axis: Axes, place: int, value: Spread | None) -> None:
    """Write a bar's value at its end, and draw its spread."""
    if value:
        axis.plot([value.low, value.high], [place, place], color=INK, linewidth=1)
        beside(axis, (value.high, place), short(value.median), INK)
    else:
        beside(axis, (None, place), "none", QUIET)


def beside(axis: Axes, at: tuple[float | None, int], text: str, colour: str) -> None:
    """Write beside the end of a bar; without a bar, where the axis begins: a logarithmic one has no zero."""
    end, place = at
    where = axis.get_yaxis_transform() if end is None else axis.transData
    axis.annotate(
        text,
        (end or 0.0, place),
        (4, 0),
        xycoords=where,
        textcoords="offset points",
        va="center",
        color=colour,
        fontsize=8,
    )


def lines(summary: Summary, spec: FigureSpec) -> Figure:
    """Draw metrics over the arms' axis or over another metric: a line per network, through its loads or arms."""
    figure = Figure(figsize=(min(WIDTH, 5.4 * len(spec.metrics)), 3.2))
    axes = figure.subplots(1, len(spec.metrics), squeeze=False)[0]
    networks = [spec.network] if spec.network else list(summary.spec.networks)
    loads: list[str | None] = [spec.load] if spec.load else list(spec.loads or summary.spec.loads)
    through = loads if spec.x == "axis" else [spec.load]
    groups = [(name, load) for name in networks for load in through]
    for axis, name in zip(axes, spec.metrics, strict=True):
        for index, (network, load) in enumerate(groups):
            points = [
                found
                for cell in summary.cells(network, load, spec.arms, spec.loads)
                if (found := point(summary, cell, spec, name))
            ]
            if spec.x == "axis":
                points.sort(key=lambda one: one[0])
            if points:
                label = label_of(summary, network, load)
                draw_line(axis, points, index, label)
        axis.set_title(heading(summary, name), loc="left", fontsize=9, color=INK)
        axis.set_xlabel(x_title(summary, spec), color=QUIET)
        tidy(axis, "y")
        finish_scale(axis, spec.log, NUMBERS)
        span_x(axis, summary, spec, groups)
    add_legend(figure, axes, LEGEND_LEFT)
    return figure


def span_x(axis: Axes, summary: Summary, spec: FigureSpec, groups: Sequence[tuple[str, str | None]]) -> None:
    """Begin the x axis at zero, and end it where the last cell is, measured or not: panels side by side compare.

    A logarithmic one begins where its first point is.
    """
    if spec.log_x:
        axis.set_xscale("log")
        mark_decades(axis.xaxis)
        return
    cells = [cell for network, load in groups for cell in summary.cells(network, load, spec.arms, spec.loads)]
    if spec.x == "axis":
        most = max((cell.arm.axis or 0.0 for cell in cells), default=0.0)
        axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    else:
        most = max((value.median for cell in cells if (value := summary.value(cell, spec.x))), default=0.0)
    axis.set_xlim(-0.03 * (most or 1.0), 1.05 * (most or 1.0))
    axis.xaxis.set_major_formatter(f"{{x:{NUMBERS}}}")


def point(summary: Summary, cell: Cell, spec: FigureSpec, name: str) -> tuple[float, Spread] | None:
    """Place one cell."""
    y = summary.value(cell, name)
    if spec.x == "axis":
        return (cell.arm.axis or 0.0, y) if y else None
    x = summary.value(cell, spec.x)
    return (x.median, y) if x and y else None


def draw_line(axis: Axes, points: Sequence[tuple[float, Spread]], index: int, label: str) -> None:
    """Draw medians as a line, and the spread of each. ``index`` counts the picture's lines."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    colour = PALETTE[index % len(PALETTE)]
    marker, dash = LOOKS[index // len(PALETTE) % len(LOOKS)]
    axis.plot(
        xs,
        [y.median for y in ys],
        color=colour,
        linestyle=dash,
        linewidth=1.6,
        marker=marker,
        markersize=4,
        label=label,
    )
    axis.vlines(xs, [y.low for y in ys], [y.high for y in ys], color=colour, linewidth=1)


def x_title(summary: Summary, spec: FigureSpec) -> str:
    """Name the x axis."""
    return spec.x_title if spec.x in {"axis", "varied"} else heading(summary, spec.x)


def over_time(summary: Summary, spec: FigureSpec) -> Figure:
    """Draw series over time of the repeat in the middle: a row per quantity, a panel per cell."""
    cells = summary.selected(spec)[:PANELS]
    figure = Figure(figsize=(WIDTH, 1.9 * len(spec.metrics) + 0.4))
    rows = figure.subplots(len(spec.metrics), len(cells), sharey="row", sharex=True, squeeze=False)
    for row, name in zip(rows, spec.metrics, strict=True):
        for axis, cell in zip(row, cells, strict=True):
            found = summary.figures(cell)
            curves = found.series.get(name, {}) if found else {}
            alone = len(curves) == 1
            for index, (label, points) in enumerate(curves.items()):
                if points:
                    # A curve alone is named by the axis' title. Curves that lie on each other stay visible.
                    axis.plot(
                        *zip(*points, strict=True),
                        color=INK if alone else COLOURS.get(label, PALETTE[6]),
                        linewidth=1.3 + 1.2 * (len(curves) - 1 - index),
                        # A share is constant between two writes.
                        drawstyle="steps-post" if name == "shares" else "default",
                        label=None if alone else label,
                    )
            shade(axis, cell, found)
            tidy(axis, "y")
        finish_scale(row[0], name in {"p95", "delay"}, NUMBERS)
        row[0].set_ylabel(SERIES[name], color=QUIET, fontsize=8)
    for axis, cell in zip(rows[0], cells, strict=True):
        axis.set_title(shorter(summary.title(cell, cells), len(cells)), loc="left", fontsize=9, color=INK)
    for axis in rows[-1]:
        axis.set_xlabel("seconds", color=QUIET)
    figure.subplots_adjust(wspace=0.06, hspace=0.18)
    add_legend(figure, [axis for row in rows for axis in row], LEGEND_LEFT, least=1)
    return figure


def shorter(text: str, panels: int) -> str:
    """Break a panel's title where it would run into the next panel's."""
    return textwrap.fill(text, round(110 / panels))


def shade(axis: Axes, cell: Cell, found: CellFigures | None) -> None:
    """Shade the warm-up, and the time of neighbours that come and go: when they did, else when they were to."""
    timing, neighbours = cell.timing, cell.arm.neighbours
    axis.axvspan(-timing.warmup, 0, color="#f0f2f5", zorder=0, linewidth=0, label="warm-up")
    if neighbours.come is not None and neighbours.go is not None:
        came, gone = (found.came, found.gone) if found else (None, None)
        there = (neighbours.come if came is None else came, neighbours.go if gone is None else gone)
        axis.axvspan(*there, color="#fdf0d5", zorder=0, linewidth=0, label="neighbours")
    axis.set_xlim(-timing.warmup, timing.duration)
    axis.xaxis.set_major_locator(MaxNLocator(5, prune="upper"))


def stack(summary: Summary, spec: FigureSpec) -> Figure:
    """Draw stacked metrics, a bar per cell."""
    cells = summary.selected(spec)
    figure = Figure(figsize=(WIDTH, 0.9 + 0.34 * len(cells)))
    axis = figure.subplots()
    base = [0.0] * len(cells)
    for index, name in enumerate(spec.metrics):
        found = [summary.value(cell, name) for cell in cells]
        widths = [value.median if value else 0.0 for value in found]
        colour = PALETTE[index % len(PALETTE)]
        axis.barh(range(len(cells)), widths, left=base, height=0.62, color=colour, label=name.partition(".")[2])
        base = [left + width for left, width in zip(base, widths, strict=True)]
    for place, cell in enumerate(cells):
        lacking = [name.partition(".")[2] for name in spec.metrics if not summary.value(cell, name)]
        if len(lacking) == len(spec.metrics):
            note(axis, place, None)
        elif lacking:
            beside(axis, (base[place], place), f"{', '.join(lacking)}: none", QUIET)
            axis.margins(x=0.2)
    axis.set_yticks(range(len(cells)), [summary.title(cell, cells) for cell in cells])
    axis.invert_yaxis()
    axis.set_xlabel(metric(spec.metrics[0]).unit, color=QUIET)
    tidy(axis, "x")
    add_legend(figure, [axis], LEGEND_LEFT)
    return figure


def boxes(summary: Summary, spec: FigureSpec) -> Figure:
    """Draw a panel per kind of operation and a box per cell: minimum, quartiles and maximum, medians of the repeats."""
    cells = summary.selected(spec)
    figure = Figure(figsize=(WIDTH, 0.9 + 0.34 * len(cells)))
    axes = figure.subplots(1, len(spec.metrics), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, spec.metrics, strict=True):
        for place, cell in enumerate(cells):
            found = [summary.value(cell, f"{name}.{part}") for part in QUARTILES]
            values = [value.median for value in found if value]
            if len(values) == len(found):
                draw_box(axis, place, values, PALETTE[colour_of(summary, cell) % len(PALETTE)])
            else:
                note(axis, place, None)
        axis.set_title(f"{name.partition('.')[2]}, ms", loc="left", fontsize=9, color=INK)
        tidy(axis, "x")
        if spec.log:
            axis.set_xscale("log")
            axis.xaxis.set_minor_formatter(LogFormatter())  # its usual one writes mathematics
        else:
            axis.set_xlim(left=0)
        axis.xaxis.set_major_formatter(f"{{x:{NUMBERS}}}")
    axes[0].set_yticks(range(len(cells)), [summary.title(cell, cells) for cell in cells])
    axes[0].invert_yaxis()
    figure.subplots_adjust(wspace=0.08)
    return figure


def draw_box(axis: Axes, place: float, values: Sequence[float], colour: str) -> None:
    """Draw minimum, quartiles and maximum: a line, a box over its middle half, and the median in it."""
    least, low, median, high, most = values
    axis.plot([least, most], [place, place], color=colour, linewidth=1, marker="|", markersize=7)
    axis.barh(place, high - low, left=low, height=0.56, color=colour)
    axis.plot([median, median], [place - 0.28, place + 0.28], color=INK, linewidth=1.6)


def colour_of(summary: Summary, cell: Cell) -> int:
    """Give an arm, or where there is only one a network, the same colour in every picture of a run."""
    arms = list(dict.fromkeys(one.arm.name for one in summary.plan.cells))
    return arms.index(cell.arm.name) if len(arms) > 1 else list(summary.spec.networks).index(cell.network_name)


def heading(summary: Summary, name: str) -> str:
    """Name a metric with its unit, where it has one."""
    return f"{metric(name).title}, {unit_of(summary, name)}".rstrip(", ")


def unit_of(summary: Summary, name: str) -> str:
    """Give a metric's unit; the neighbours' work has the unit of their kind."""
    if name != "neighbours.work":
        return metric(name).unit
    units = {cell.unit for repeat in summary.counted for cell in repeat.cells.values() if cell.unit}
    return units.pop() if len(units) == 1 else metric(name).unit


def label_of(summary: Summary, network: str | None, load: str | None) -> str:
    """Name a line by what distinguishes it from the others."""
    parts = []
    if network is not None:
        its = summary.spec.networks[network]
        if len(summary.spec.networks) > 1 or its.system in BENCHED:
            parts.append(its.title or network)
    if load is not None and len(summary.spec.loads) > 1:
        parts.append(summary.spec.loads[load].title or load)
    return ", ".join(parts) or "median, least and most"


def tidy(axis: Axes, grid: Literal["x", "y"]) -> None:
    """Draw no more than is needed."""
    axis.grid(axis=grid, color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(colors=QUIET, length=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(GRID)
