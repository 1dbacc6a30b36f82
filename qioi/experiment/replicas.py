"""Measures one cell of an experiment without a ledger: `qioi-ledger bft-bench`, with real or simulated replicas."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

import msgspec
from msgspec import Struct, field

from qioi.experiment.child import run_to_end
from qioi.experiment.condense import CellFigures
from qioi.experiment.noise import Accounting, disturbance
from qioi.experiment.plan import Cell
from qioi.lab.machine import snapshot
from qioi.lab.network import find_binary
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines

#: Seconds that a cell may take beyond its window: keys, tables, and for the simulator all of its work.
SLACK = 600.0
#: Seconds that the counters of CPU time which are compared are together off by at most: each is good to 10 ms.
TICKS = 0.03
#: Laid over a cell's flags in a smoke run.
SMOKE = {"--clients": "200", "--records": "1000", "--batch": "20"}


class Latency(Struct, frozen=True):
    """In milliseconds."""

    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Stage(Struct, frozen=True):
    """One stage of a replica; ``saturation`` is from 0 to 1."""

    stage: str
    saturation: float


class Replica(Struct, frozen=True):
    """One replica."""

    id: int
    stages: list[Stage]


class Clients(Struct, frozen=True):
    """The clients' process; CPU time in microseconds per transaction."""

    cpu_us: float


class Floor(Struct, frozen=True):
    """What verifying clients' signatures allows; ``part`` is how much of that was reached."""

    part: float


class Found(Struct, frozen=True):
    """The result of bft-bench, as far as it is shown."""

    seconds: float
    throughput: float
    operations: float
    latency: Latency
    replicas: list[Replica]
    clients: Clients
    cpu_us: float
    stages_us: dict[str, float] = field(default_factory=dict)
    floor: Floor = Floor(0.0)


def measure_replicas(cell: Cell, seed: int, directory: Path, *, smoke: bool) -> CellFigures:
    """Run the benchmark, and write the cell's folder."""
    directory.mkdir(parents=True, exist_ok=True)
    file, costs = directory / "bench.json", costs_of(directory)
    before_costs, accounting = known(costs), Accounting()
    before = accounting.account(snapshot(), children())
    run(command(cell, seed, file, smoke=smoke), directory / "bench.log", cell.seconds + SLACK)
    # The counters may be off by TICKS seconds, which count as the children's, so that they are not others'.
    after = accounting.account(snapshot(), children() + TICKS)
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Found)
    except msgspec.DecodeError as error:
        raise LabError(f"{file}: {error}: a qioi-ledger of this version is needed") from error
    metrics = metrics_of(found, cell)
    # The simulator measures its costs on this machine, so what disturbs that disturbs its result. Where it has them
    # already nothing can, and it is done in a part of a second, in which a clock of 10 ms sees what is not there.
    if cell.network.system == "replicas" or known(costs) != before_costs:
        metrics |= disturbance(before, after, len(os.sched_getaffinity(0)))
    figures = CellFigures(cell.key, metrics, {}, "", time.time() - found.seconds)
    (directory / "cell.json").write_text(json.dumps(asdict(figures), indent=1) + "\n", encoding="utf-8")
    return figures


def costs_of(directory: Path) -> Path:
    """Give the file of what steps cost, which all cells of a repeat have in common: they are compared."""
    return directory.parent / "costs.json"


def known(costs: Path) -> str:
    """Give what was measured so far."""
    return costs.read_text(encoding="utf-8") if costs.exists() else ""


def children() -> float:
    """Give the CPU seconds of the children of this process that have ended, their own children included."""
    times = os.times()
    return times.children_user + times.children_system


def command(cell: Cell, seed: int, file: Path, *, smoke: bool) -> list[str]:
    """Format a cell for bft-bench: the network's flags, then the load's, then the run's."""
    real = cell.network.system == "replicas"
    timing = {"--warmup": f"{cell.timing.warmup:g}s", "--duration": f"{cell.timing.duration:g}s"} if real else {}
    flags = {f"--{name}": go_flag(value) for name, value in (cell.network.flags | cell.load.flags).items()}
    flags |= {"--seed": str(seed), "--json": str(file), **timing, **(SMOKE if smoke else {})}
    if not real:
        flags["--costs"] = str(costs_of(file.parent))
    if smoke and not real:
        flags |= {"--replicas": "4", "--batches": "20", "--failed": "0"}
    words = [str(find_binary()), "bft-bench", *([] if real else ["simulate"])]
    return [*words, *(f"{name}={value}" for name, value in flags.items())]


def go_flag(value: str | float) -> str:
    """Spell a flag's value as Go's flags have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def run(words: list[str], log: Path, seconds: float) -> None:
    """Run it to its end; LabError says why it has failed."""
    with log.open("w", encoding="utf-8") as out:
        try:
            code = run_to_end(words, seconds=seconds, output=out)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{' '.join(words)}: not done after {seconds:.0f} s") from error
    if code != 0:
        raise LabError(f"{' '.join(words)}: exit status {code}: {last_lines(log)}")


def metrics_of(found: Found, cell: Cell) -> dict[str, float]:
    """Give a cell's metrics. Saturation is the primary's and the first backup's, in %."""
    metrics = {
        "throughput": found.throughput,
        "operations": found.operations,
        "mean": found.latency.mean_ms,
        "p50": found.latency.p50_ms,
        "p95": found.latency.p95_ms,
        "p99": found.latency.p99_ms,
        "ledger.cores": found.throughput * found.cpu_us / 1e6,
        "ledger.ms_per_tx": found.cpu_us / 1000,
        "client.cores": found.throughput * found.clients.cpu_us / 1e6,
        **{f"cpu.{name}": value for name, value in found.stages_us.items()},
    }
    for role, replica in zip(("primary", "backup"), found.replicas, strict=False):
        metrics |= {f"{role}.{stage.stage}": 100 * stage.saturation for stage in replica.stages}
    if found.floor.part:
        metrics["signatures"] = 100 * found.floor.part
    if cell.load.varied is not None:
        metrics["varied"] = cell.load.varied
    return metrics
