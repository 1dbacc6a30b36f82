"""From repeats to a page: medians with spread, ratios within repeats, judgements of the papers' sentences."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qioi.experiment.calibration import Calibration
from qioi.experiment.condense import CellFigures
from qioi.experiment.metrics import known_metric, metric
from qioi.experiment.plan import Cell
from qioi.experiment.run_files import Repeat
from qioi.experiment.session import title
from qioi.experiment.spec import ArmSpec, ExperimentSpec, FigureSpec, GoalSpec, PaperSpec, SentenceSpec
from qioi.experiment.store import Store
from qioi.experiment.system import BENCHED
from qioi.experiment.whole import replacing

#: A ratio that differs from 1 by no more than this counts as "the same".
SAME = 0.03
#: Metrics that goals and tables take by themselves: parts and times already, or goodput, where a ratio of two that are
#: equally bad would be 1.
ABSOLUTE = frozenset({"goodput", "neighbours.due", "reaction", "release", "signatures"})


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of the repeats that count, their minimum and their maximum."""

    median: float
    low: float
    high: float
    count: int


def spread(values: Iterable[float]) -> Spread | None:
    """Sum values up, ratios to 0 (infinite) among them; ``None`` if there are none."""
    found = list(values)
    return Spread(statistics.median(found), min(found), max(found), len(found)) if found else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence of the paper beside ours.

    ``agrees`` is ``None`` where the spread, or too few repeats that have a value, leave the direction open.
    """

    what: str
    metric: str
    paper: float
    ours: Spread | None
    agrees: bool | None
    word: str
    #: The two cells' own medians, in the metric's unit. Ours is taken within each repeat, so it need not be theirs.
    values: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A goal beside what was found.

    ``reached`` is about the median; ``often`` says how many reached it ``of`` the repeats that count. One that has no
    such value, as a starved ledger has no latency, has not: where some have none, most must have reached it.
    """

    what: str
    metric: str
    least: float | None
    most: float | None
    ours: Spread | None
    reached: bool | None
    often: int = 0
    of: int = 0


class Summary:
    """One run, as read from its folder."""

    def __init__(self, store: Store) -> None:
        document = store.document
        self.directory = store.directory
        self.document = document
        self.plan = document.plan
        self.spec: ExperimentSpec = self.plan.spec
        self.repeats = store.repeats()
        quiet = [repeat for repeat in self.repeats if repeat.quiet]
        #: Medians are over quiet repeats. If there is none the page shows the noisy ones and says so.
        self.counted: list[Repeat] = quiet or self.repeats
        self.noisy = [repeat for repeat in self.repeats if not repeat.quiet]

    @property
    def trusted(self) -> bool:
        """Whether there are as many quiet repeats as were asked for, and these are enough."""
        return not self.plan.smoke and sum(repeat.quiet for repeat in self.repeats) >= self.plan.repeats

    @property
    def calibrations(self) -> list[Calibration]:
        """Give what was measured of the machine's speed in the repeats that count; earlier versions' have nothing."""
        return [repeat.calibration for repeat in self.counted if repeat.calibration is not None]

    @property
    def forward(self) -> int:
        """Count the repeats, of those that count, whose cells ran in the file's order: they are kept as they ran."""
        return sum(self.plan.is_forward(repeat.cells) for repeat in self.counted)

    def title(self, cell: Cell, among: Sequence[Cell] = ()) -> str:
        """Name a cell by what distinguishes it from these, or from all others."""
        return title(cell, among or self.plan.cells)

    def selected(self, figure: FigureSpec) -> list[Cell]:
        """Give the cells that a figure is of."""
        return self.cells(figure.network, figure.load, figure.arms, figure.loads)

    def cells(
        self,
        network: str | None = None,
        load: str | None = None,
        arms: Sequence[str] = (),
        loads: Sequence[str] = (),
    ) -> list[Cell]:
        """Select cells; arms that were left out are found under the ones that stand for them."""
        wanted = {self.plan.same.get(arm, arm) for arm in arms}
        return [
            cell
            for cell in self.plan.cells
            if (network is None or cell.network_name == network)
            and (load is None or cell.load_name == load)
            and (not loads or cell.load_name in loads)
            and (not wanted or cell.arm.name in wanted)
        ]

    def value(self, cell: Cell, metric: str) -> Spread | None:
        """Give a metric of a cell."""
        return spread(self._values(cell, metric).values())

    def ratio(self, cell: Cell, metric: str, base: str | None = None) -> Spread | None:
        """Give a metric against that of another cell (by default its own base), repeat by repeat."""
        against = base or cell.base
        if against is None:
            return None
        other = next(one for one in self.plan.cells if one.key == against)
        return spread(self._ratios(cell, metric, other).values())

    def _ratios(self, cell: Cell, name: str, other: Cell) -> dict[int, float]:
        """Give a metric against another cell's, by repeat; there is none to 0, except of a gain, which is infinite.

        Without the repeats in which the other had nothing, the median would lack the largest gains. A failure where the
        other had none is no such thing: of repeats in which neither failed there is no ratio beside it.
        """
        ours, theirs = self._values(cell, name), self._values(other, name)
        gains = known_metric(name) and metric(name).better > 0
        both = [number for number in ours if theirs.get(number) or (gains and ours[number] and number in theirs)]
        return {number: ours[number] / theirs[number] if theirs[number] else math.inf for number in both}

    def _values(self, cell: Cell, metric: str) -> dict[int, float]:
        if metric == "neighbours.due":
            return {repeat.number: value for repeat in self.counted if (value := self._due(repeat, cell)) is not None}
        return {
            repeat.number: value
            for repeat in self.counted
            if math.isfinite(value := repeat.cells[cell.key].metrics.get(metric, math.nan))
        }

    def _due(self, repeat: Repeat, cell: Cell) -> float | None:
        """Give the part of their due that the neighbours got, in %.

        Their due is what ledger and client leave free when they run alone, times the neighbours' own rate per
        core-second; both sides of the ratio have that rate, so CPU times suffice. Neighbours that are bound to a CPU
        beside one component can't take what is free elsewhere, and have no due.
        """
        alone = repeat.cells[f"{cell.network_name}.{cell.load_name}.{self.alone.name}"].metrics
        cores = repeat.cells[cell.key].metrics.get("neighbours.cores")
        free = self.plan.cores - alone["ledger.cores"] - alone["client.cores"]
        if cores is None or free <= 0 or self.alone.neighbours.count or cell.arm.neighbours.beside:
            return None
        return 100 * cores / free

    @property
    def alone(self) -> ArmSpec:
        """The first arm: the ledger alone, in every experiment that has such an arm."""
        return self.plan.cells[0].arm

    def figures(self, cell: Cell) -> CellFigures | None:
        """Give a cell of the repeat in the middle: the one whose curves are drawn."""
        if not self.counted:
            return None
        by_throughput = sorted(self.counted, key=lambda repeat: repeat.cells[cell.key].metrics["throughput"])
        return by_throughput[len(by_throughput) // 2].cells[cell.key]

    def verdicts(self) -> list[Verdict]:
        """Judge every sentence of the paper."""
        return [self._verdict(claim) for claim in self.spec.papers]

    def _verdict(self, claim: PaperSpec) -> Verdict:
        cell, base = self._place(claim)
        ours = self.ratio(cell, claim.metric, base.key) if cell and base else None
        agrees, word = judge(claim.value, ours, len(self.counted))
        pair = tuple(self.value(one, claim.metric) for one in (base, cell) if one) if ours else ()
        values = (pair[0].median, pair[1].median) if len(pair) == 2 and pair[0] and pair[1] else None
        return Verdict(with_system(claim.what, cell, base), claim.metric, claim.value, ours, agrees, word, values)

    def outcomes(self) -> list[Outcome]:
        """Say of every goal whether it is reached."""
        return [self._outcome(goal) for goal in self.spec.goals]

    def _outcome(self, goal: GoalSpec) -> Outcome:
        cell, base = self._place(goal)
        values: dict[int, float] = {}
        if cell is not None and goal.metric in ABSOLUTE:
            values = self._values(cell, goal.metric)
        elif cell is not None and base is not None:
            values = self._ratios(cell, goal.metric, base)
        ours = spread(values.values())
        often = sum(within(goal, value) for value in values.values())
        of = len(self.counted)
        if ours is not None:
            reached: bool | None = within(goal, ours.median) and (len(values) == of or 2 * often > of)
        else:
            reached = False if cell is not None and self._missed(cell, goal.metric, base) else None
        return Outcome(with_system(goal.what, cell, base), goal.metric, goal.least, goal.most, ours, reached, often, of)

    def _missed(self, cell: Cell, metric: str, base: Cell | None) -> bool:
        """Whether a cell lacks a metric, in all repeats, that it would have if it did what is asked for."""
        if self._values(cell, metric):
            return False
        found = [repeat.cells[cell.key] for repeat in self.counted]
        # With a share that was raised before, and in cells that do not say so, there is nothing to be told.
        if metric == "reaction":
            return any(one.came is not None and one.early is False for one in found)
        if metric == "release":
            return any(one.gone is not None and one.early is False for one in found)
        # A ledger that commits has a latency; beside one that does, the lack of it is no gap in what was measured.
        return base is not None and bool(self._values(base, metric))

    def _place(self, one: SentenceSpec) -> tuple[Cell | None, Cell | None]:
        """Find the two cells that a sentence is about: this one, and the other one that it is compared with."""
        network = one.network or next(iter(self.spec.networks))
        load = one.load or next(iter(self.spec.loads))
        cell = self._at(f"{network}.{load}.{self._measured(one.arm)}")
        base = cell.base if cell else None
        if (one.of, one.of_network, one.of_load) != (None, None, None):
            base = f"{one.of_network or network}.{one.of_load or load}.{self._measured(one.of or one.arm)}"
        other = self._at(base) if base is not None else None
        # Two arms that scaling has made one have a ratio of 1, whatever they do.
        return cell, None if other is cell else other

    def _measured(self, arm: str) -> str:
        return self.plan.same.get(arm, arm)

    def _at(self, key: str) -> Cell | None:
        return next((cell for cell in self.plan.cells if cell.key == key), None)


def with_system(what: str, *cells: Cell | None) -> str:
    """Say of a sentence about replicas whether these are real; of one that compares the two it says so itself."""
    systems = {cell.network.system for cell in cells if cell}
    if len(systems) != 1 or (system := systems.pop()) not in BENCHED:
        return what
    return f"{what} ({'real' if system == 'replicas' else 'simulated'})"


def within(goal: GoalSpec, value: float) -> bool:
    """Whether a value is within a goal's bound."""
    return value >= goal.least if goal.least is not None else goal.most is not None and value <= goal.most


def judge(paper: float, ours: Spread | None, of: int) -> tuple[bool | None, str]:
    """Say whether ours, in most ``of`` the repeats that count, has the direction of the paper's: up, down, the same."""
    if ours is None:
        return None, "not measured"
    if 2 * ours.count <= of:
        return None, "open: too few repeats have a value"
    wanted, low, high = direction(paper), direction(ours.low), direction(ours.high)
    opposed = low * high < 0
    if direction(ours.median) == wanted and not opposed:
        return True, "agrees"
    if low <= wanted <= high:
        return None, "open: the repeats do not agree"
    return False, "does not agree"


def direction(ratio: float) -> int:
    """Give 1 for more, -1 for less, 0 for the same."""
    # 1.03 - 1 is more than 0.03 in binary.
    return 0 if round(abs(ratio - 1), 9) <= SAME else 1 if ratio > 1 else -1


def as_json(summary: Summary) -> dict[str, Any]:
    """Format all medians, ratios and verdicts for programs."""

    def both(cell: Cell) -> dict[str, Any]:
        names = sorted({name for repeat in summary.counted for name in repeat.cells[cell.key].metrics})
        found = {name: (summary.value(cell, name), summary.ratio(cell, name)) for name in [*names, "neighbours.due"]}
        return {
            name: {"value": asdict(value), "ratio": plain(ratio)}
            for name, (value, ratio) in found.items()
            if value is not None
        }

    return {
        "experiment": summary.spec.name,
        "trusted": summary.trusted,
        "counted": [repeat.number for repeat in summary.counted],
        "noisy": {repeat.number: repeat.noise for repeat in summary.noisy},
        "cells": {cell.key: {"title": summary.title(cell), "metrics": both(cell)} for cell in summary.plan.cells},
        "papers": [{**asdict(verdict), "ours": plain(verdict.ours)} for verdict in summary.verdicts()],
        "goals": [{**asdict(outcome), "ours": plain(outcome.ours)} for outcome in summary.outcomes()],
    }


def plain(ours: Spread | None) -> dict[str, Any] | None:
    """Format a spread for JSON, which has no number for a ratio to 0: that is the word ``Infinity``."""
    if ours is None:
        return None
    return {key: "Infinity" if value == math.inf else value for key, value in asdict(ours).items()}


def write_csv(summary: Summary, path: Path) -> None:
    """Write every metric of every cell of every repeat, one line each: six digits, and all before the point."""
    with replacing(path) as new, new.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["repeat", "quiet", "network", "load", "arm", "metric", "value"])
        for repeat in summary.repeats:
            for cell in summary.plan.cells:
                for name, value in sorted(repeat.cells[cell.key].metrics.items()):
                    row = (repeat.number, int(repeat.quiet), cell.network_name, cell.load_name, cell.arm.name)
                    out.writerow([*row, name, f"{value:.6g}" if abs(value) < 1e5 else f"{value:.0f}"])
