"""The form of an experiment's file: what is varied, what is compared, and how it is shown.

Three axes span an experiment: ``networks`` (how the ledger is built), ``loads`` (how it is driven) and ``arms``
(neighbours and protection). Every load is run on every network under every arm; an arm is compared with the arm that
it names in ``against``, on the same network, under the same load, in the same repeat. Times are in seconds.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from qioi.experiment.form import Count, Name, Positive, Shares, Strict
from qioi.experiment.system import LoadSpec, NetworkSpec
from qioi.model import DEFAULT_SHARES

#: Most panels side by side that are readable.
PANELS = 4


def _splits(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"accepted is a program and its arguments: {error}") from None
    if not words:
        raise ValueError("accepted is a program and its arguments")
    return command


#: What neighbours can be; each is a number of them.
NEIGHBOUR_KINDS = ("sysbench", "stress_memory", "stress_io", "spark", "programs")


class NeighbourSpec(Strict):
    """The neighbours, in the paper's numbers (24 cores; see qioi.experiment.scale).

    ``quota`` caps the CPU time of all of them together, of Spark that of its workers, as a part of the host's. They
    come during the warm-up and stay, or come and go at these seconds of the measured window. ``beside`` a follower,
    they and the first orderer after a leader, of those that lead nothing, have one CPU between them, to which they are
    pinned; their number is then that of one CPU and is not scaled.
    ``programs`` are that many of ``command``, without a shell. Spark sorts so many ``records`` a round (0: 300,000 for
    each worker); its work is known where finished rounds fill half of the window. Each neighbour has so many
    ``shares``. In ``bouts`` of so many seconds they work, and are stopped for as long.
    """

    sysbench: Count = 0
    stress_memory: Count = 0
    stress_io: Count = 0
    spark: Count = 0
    programs: Count = 0
    command: Annotated[str, AfterValidator(_splits)] | None = None
    records: Annotated[int, Field(ge=0)] = 0
    shares: Shares = DEFAULT_SHARES
    bouts: Positive | None = None
    quota: Annotated[float, Field(gt=0, le=1)] | None = None
    come: Annotated[float, Field(ge=0)] | None = None
    go: Positive | None = None
    beside: Literal["follower"] | None = None

    @property
    def count(self) -> int:
        """Their number."""
        return sum(getattr(self, kind) for kind in NEIGHBOUR_KINDS)

    @model_validator(mode="after")
    def _somebody_comes(self) -> Self:
        kinds = [kind for kind in NEIGHBOUR_KINDS if getattr(self, kind)]
        if len(kinds) > 1:
            raise ValueError(f"one kind of neighbour an arm is accepted, not {' and '.join(kinds)}")
        if not kinds and self.model_dump(exclude_defaults=True):
            raise ValueError("quota, come, beside, command, records, shares and bouts need a neighbour")
        if (self.command is None) != (self.programs == 0):
            raise ValueError("programs and command are given together")
        if self.records and not self.spark:
            raise ValueError("records are of spark")
        if self.spark and (self.shares != DEFAULT_SHARES or self.bouts is not None):
            raise ValueError("shares and bouts are not of spark")
        if (self.come is None) != (self.go is None) or (self.go is not None and self.go <= (self.come or 0)):
            raise ValueError("come and go are given together, come before go")
        return self


class ProtectionSpec(Strict):
    """The protection: the daemon under ``law``, or ``shares`` that are set by hand, once, on every component.

    ``threshold`` is T: ``offered``, ``maximum``, or tps; the default depends on the law
    (qioi.lab.demo.default_threshold). ``daemon`` is laid over the daemon's configuration as it is.
    """

    law: Literal["proportional", "adaptive"] | None = None
    k: Positive | None = None
    period: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    threshold: Literal["offered", "maximum"] | Positive | None = None
    shares: Shares | None = None
    daemon: dict[str, object] = {}

    @model_validator(mode="after")
    def _one_means(self) -> Self:
        if (self.law is None) == (self.shares is None):
            raise ValueError("exactly one of law and shares is accepted")
        if self.shares is not None and (self.k is not None or self.daemon or self.threshold is not None):
            raise ValueError("k, threshold and daemon are of a law")
        if self.k is not None and self.law == "adaptive":
            raise ValueError("k is of the law proportional")
        return self

    @property
    def of_maximum(self) -> bool:
        """Whether T is derived from the ledger's maximum, which also bounds what is offered."""
        return self.law is not None and not isinstance(self.threshold, float)


class ArmSpec(Strict):
    """One condition. ``against`` names the arm that it is compared with; the first is compared with none.

    ``{n}`` in the title stands for the number of neighbours, ``{s}`` for their plural's s; ``axis`` is its place on a
    picture's x axis, by default that number.
    """

    name: Name
    title: str
    neighbours: NeighbourSpec = NeighbourSpec()
    protection: ProtectionSpec | None = None
    against: Name | None = None
    axis: float | None = None


class Timing(Strict):
    """The times of every cell, in seconds. The window is ``duration`` long; ``warmup`` before it and ``cooldown`` after
    it count for nothing. (The load goes on meanwhile, so that the window's last blocks fill as its others did.)

    Neighbours come at most 3 s after the warm-up's beginning: by default the backlog of their coming has 12 s to go.

    ``sample`` is the time between two samples; ``profile`` is how much of the window's end perf sched records.
    """

    warmup: Positive = 15.0
    duration: Positive = 25.0
    cooldown: Annotated[float, Field(ge=0)] = 2.0
    sample: Annotated[float, Field(ge=0.05, le=2)] = 0.5
    profile: Annotated[float, Field(ge=0, le=60)] = 0.0

    @property
    def arrival(self) -> float:
        """When neighbours that stay arrive, in seconds since the warm-up began."""
        return min(3.0, 0.3 * self.warmup)

    @property
    def settling(self) -> float:
        """Seconds between the neighbours' arrival and the window, in which their backlog may go."""
        return self.warmup - self.arrival

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        if self.duration < 2 * self.sample + 1:
            raise ValueError("a duration of at least one second and two samples is accepted")
        if self.profile > self.duration:
            raise ValueError("profile is accepted up to the duration")
        return self


class StandardSpec(Strict):
    """The `standard` length: these seconds in place of the file's, and where an axis is named only these of its points.

    How long all of the bundled experiments take at most at this length stands in qioi.experiment.standard.
    """

    warmup: Positive
    duration: Positive
    cooldown: Annotated[float, Field(ge=0)] = 1.0
    networks: list[Name] = []
    loads: list[Name] = []
    arms: list[Name] = []


class FigureSpec(Strict):
    """One table or picture.

    ``bars``: a panel per metric, a bar per cell. ``lines``: metrics over ``x`` (a metric, or ``axis`` of the arms,
    which ``x_title`` names), a line per network; ``log_x`` makes the x axis of such a metric logarithmic. ``time``:
    series over time, a panel per cell. ``stack``: stacked metrics, a bar per cell. ``boxes``: minimum, quartiles and
    maximum of kinds of operations (``kind.NAME``), a panel per kind, a box per cell. ``log`` is of lines and boxes.
    """

    kind: Literal["table", "bars", "lines", "time", "stack", "boxes"]
    title: str
    metrics: Annotated[list[str], Field(min_length=1)]
    x: str = "axis"
    x_title: str = "neighbours"
    arms: list[Name] = []
    loads: list[Name] = []
    load: Name | None = None
    network: Name | None = None
    log: bool = False
    log_x: bool = False

    @model_validator(mode="after")
    def _an_axis_to_scale(self) -> Self:
        if self.log and self.kind not in {"lines", "boxes"}:
            raise ValueError("log is of lines and boxes")
        if self.log_x and (self.kind != "lines" or self.x == "axis"):
            raise ValueError("log_x is of lines over a metric")
        return self


class SentenceSpec(Strict):
    """A sentence about one ratio: a metric of an arm to the same of the arm that it is compared with.

    With ``of`` the ratio is to that arm in place of ``against``; ``network`` and ``load`` name the cell where there
    are several, ``of_network`` and ``of_load`` the other side of a ratio between them.
    """

    what: str
    metric: str
    arm: Name
    of: Name | None = None
    network: Name | None = None
    of_network: Name | None = None
    load: Name | None = None
    of_load: Name | None = None


class PaperSpec(SentenceSpec):
    """One sentence of the paper; ``value`` is the paper's ratio."""

    value: float


class GoalSpec(SentenceSpec):
    """A goal of QiOi's: a bound of the ratio, or of the metric itself where that is a ratio already."""

    least: float | None = None
    most: float | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.least is None) == (self.most is None):
            raise ValueError("exactly one of least and most is accepted")
        return self


class ExperimentSpec(Strict):
    """A whole file. With ``disk`` its ledgers are never in memory, unless the run itself names their folder.

    Without ``standard`` its length is the same at every length.
    """

    name: Name
    title: str
    paper: str
    question: str
    networks: Annotated[dict[Name, NetworkSpec], Field(min_length=1)]
    loads: Annotated[dict[Name, LoadSpec], Field(min_length=1)]
    arms: Annotated[list[ArmSpec], Field(min_length=1)]
    timing: Timing = Timing()
    standard: StandardSpec | None = None
    repeats: Annotated[int, Field(ge=1, le=100)] = 3
    disk: bool = False
    figures: Annotated[list[FigureSpec], Field(min_length=1)]
    papers: list[PaperSpec] = []
    goals: list[GoalSpec] = []
    notes: list[str] = []
