"""The form of what a run writes and the page reads: run.json and repeat.json, checked as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from qioi.experiment.calibration import Calibration
from qioi.experiment.condense import CellFigures
from qioi.experiment.form import Strict
from qioi.experiment.plan import Cell, Plan
from qioi.experiment.spec import ArmSpec, ExperimentSpec, Timing

FORMAT = 1
#: Metrics that every cell has, and that others are made of.
ALWAYS = ("throughput", "ledger.cores", "client.cores")


class Host(BaseModel):
    """The machine as a run found it (qioi.experiment.host); further keys are kept, but not shown.

    ``ledger_binary`` is the build that was measured, ``code`` a digest of QiOi's own modules and ``fabric`` one of real
    Fabric's programs by network; runs of earlier versions have none.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    cgroup_version: int
    cgroup_hierarchies: str
    cgroup_mode: str
    hypervisor: bool
    load_average: list[float]
    pressure: dict[str, str | None]
    versions: dict[str, str]
    ledger_binary: dict[str, str | int] = Field(default_factory=dict)
    code: str = ""
    fabric: dict[str, str] = Field(default_factory=dict)
    seed: int
    at: str


class RunDocument(Strict):
    """run.json: the plan, the machine, and notes of the run.

    ``command`` measures the same again; runs of earlier versions have none. ``benchmarks`` has a digest of what Caliper
    reads, by load; ``media`` where each network's ledgers stand, ``folder`` a digest of the folder that was named for
    them. ``resumed`` are the machine's states at each resumption, ``lost`` the reasons why repeats could not be
    measured, ``probe_noise`` what disturbed the search for each network's maximum.
    """

    format: Literal[1]
    command: str = ""
    spec: ExperimentSpec
    arms: Annotated[list[ArmSpec], Field(min_length=1)]
    timing: Timing
    same: dict[str, str]
    repeats: Annotated[int, Field(ge=1)]
    seed: int
    cores: Annotated[int, Field(ge=1)]
    paper_size: bool
    smoke: bool
    benchmarks: dict[str, str] = Field(default_factory=dict)
    media: dict[str, Literal["memory", "disk"]] = Field(default_factory=dict)
    folder: str = ""
    host: Host
    maxima: dict[str, float]
    resumed: list[Host] = Field(default_factory=list)
    lost: list[str] = Field(default_factory=list)
    probe_noise: dict[str, list[str]] = Field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """Lay the run out again as it was."""
        cells = tuple(
            Cell(network_name, network, load_name, load, arm, self.timing)
            for network_name, network in self.spec.networks.items()
            for load_name, load in self.spec.loads.items()
            for arm in self.arms
        )
        return Plan(self.spec, cells, self.same, self.repeats, self.seed, self.cores, self.paper_size, self.smoke)

    @property
    def keys(self) -> list[str]:
        """Name the cells that every repeat has."""
        return [cell.key for cell in self.plan.cells]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A finished repeat. ``noise`` says what disturbed which cell; empty if nothing did.

    ``calibration`` was taken as it began; smoke runs, and those of earlier versions, have none.
    """

    number: int
    cells: dict[str, CellFigures]
    noise: dict[str, list[str]]
    calibration: Calibration | None = None

    @property
    def quiet(self) -> bool:
        """Whether it counts for medians."""
        return not self.noise
