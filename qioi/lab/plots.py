"""The report's pictures: one quantity each, the arms side by side on one scale, as SVG text.

Matplotlib is imported by this module alone, and this module only when a report is written.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from qioi.lab.figures import ArmFigures, Series
from qioi.model import DEFAULT_SHARES

#: Colours that people with colour-blindness can tell apart too (Okabe and Ito).
COLOURS = {
    "peer": "#0072B2",
    "orderer": "#D55E00",
    "chaincode": "#009E73",
    "broker": "#E69F00",
    "ledger": "#0072B2",
    "sysbench": "#8C6BB1",
}
INK = "#1f2933"
QUIET = "#7b8794"
GRID = "#e4e7eb"


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot. ``label`` is its colour's key and its name in the legend."""

    label: str
    points: Series


@dataclass(frozen=True, slots=True)
class Plot:
    """One quantity: how to take its curves from an arm, and how to draw its scale."""

    name: str
    title: str
    unit: str
    curves: Callable[[ArmFigures], list[Curve]]
    logarithmic: bool = False
    reference: Callable[[ArmFigures], tuple[float, str] | None] = lambda _: None


def offered(arm: ArmFigures) -> tuple[float, str] | None:
    """Give the line that throughput is to reach."""
    return (arm.load.offered, "offered") if arm.load.offered is not None else None


PLOTS = (
    Plot(
        "throughput",
        "Committed transactions",
        "per second",
        lambda arm: [Curve("ledger", arm.series.throughput)],
        reference=offered,
    ),
    Plot("latency", "Latency, p95 of each second", "ms", lambda arm: [Curve("ledger", arm.series.p95)], True),
    Plot(
        "delay",
        "Scheduling delay, mean wait per time slice",
        "ms",
        lambda arm: [Curve(name, points) for name, points in arm.series.delay],
        logarithmic=True,
    ),
    Plot(
        "shares",
        "CPU shares, mean of each role",
        "cpu.shares",
        lambda arm: [Curve(name, points) for name, points in arm.series.shares],
        reference=lambda _: (float(DEFAULT_SHARES), "default"),
    ),
    Plot("sysbench", "sysbench, all instances", "events/s", lambda arm: [Curve("sysbench", arm.series.interferer)]),
)


def draw(plot: Plot, arms: Sequence[ArmFigures]) -> str:
    """Draw one quantity for all arms; returns an SVG element for embedding."""
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 9, "svg.fonttype": "none", "text.color": INK}):
        figure = Figure(figsize=(9.9, 2.2))
        axes = figure.subplots(1, len(arms), sharey=True, squeeze=False)[0]
        # The same margins in every picture, so that the panels stand below each other.
        figure.subplots_adjust(left=0.075, right=0.875, top=0.89, bottom=0.16, wspace=0.06)
        span = time_span(plot, arms)
        for index, (axis, arm) in enumerate(zip(axes, arms, strict=True)):
            draw_arm(axis, plot, arm, span)
            axis.set_title(arm.title, loc="left", fontsize=9, color=INK)
            if index == 0:
                axis.set_ylabel(plot.unit, color=QUIET)
        finish_scale(axes[0], plot.logarithmic)
        add_legend(figure, axes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return strip_prolog(buffer.getvalue())


def time_span(plot: Plot, arms: Sequence[ArmFigures]) -> tuple[float, float]:
    """Give the first and the last time that any curve of any arm has; a second where there is none."""
    times = [time for arm in arms for curve in plot.curves(arm) for time, _ in curve.points]
    return (min(times), max(times)) if len(set(times)) > 1 else (0.0, 1.0)


def draw_arm(axis: Axes, plot: Plot, arm: ArmFigures, span: tuple[float, float]) -> None:
    """Draw one arm's panel."""
    reference = plot.reference(arm)
    if reference is not None:
        axis.axhline(reference[0], color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)), label=reference[1])
    drawn = False
    for curve in plot.curves(arm):
        points = [(time, value) for time, value in curve.points if not plot.logarithmic or value > 0]
        if points:
            drawn = True
            times, values = zip(*points, strict=True)
            axis.plot(times, values, color=COLOURS.get(curve.label, INK), linewidth=1.5, label=curve.label)
    if not drawn:
        axis.text(0.5, 0.5, "none", transform=axis.transAxes, ha="center", va="center", color=QUIET)
    if span[0] < 0:
        axis.axvspan(span[0], 0, color="#f0f2f5", zorder=0, linewidth=0)
    axis.set_xlim(span)
    axis.set_xlabel("s", color=QUIET, labelpad=1)
    axis.grid(axis="y", color=GRID, linewidth=0.8)
    axis.tick_params(colors=QUIET, length=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(GRID)


def finish_scale(axis: Axes, logarithmic: bool, spelling: str = ",.0f") -> None:
    """Make the scale start at zero, its numbers spelled so, or logarithmic with plain numbers."""
    if logarithmic:
        axis.set_yscale("log")
        mark_decades(axis.yaxis)
    else:
        # A curve along the top is seen whole.
        axis.set_ylim(0, 1.04 * axis.get_ylim()[1])
        axis.yaxis.set_major_formatter(f"{{x:{spelling}}}")


def mark_decades(scale: Axis) -> None:
    """Mark a logarithmic scale with plain numbers, two in each decade."""
    scale.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    scale.set_major_formatter("{x:,g}")
    scale.set_minor_locator(NullLocator())


def add_legend(figure: Figure, axes: Sequence[Axes], left: float = 0.88, least: int = 2) -> None:
    """Name the curves once for all panels, from ``left`` (part of the width) on; fewer than ``least`` need no name."""
    named = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if len(named) >= least:
        figure.legend(
            named.values(), named.keys(), loc="center left", bbox_to_anchor=(left, 0.5), frameon=False, fontsize=8.5
        )


def strip_prolog(svg: str) -> str:
    """Leave the XML declaration and document type out: the picture stands inside HTML."""
    return svg[svg.index("<svg") :]
