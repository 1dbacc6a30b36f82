"""What drives the ledger in a cell: the bundled load client, one for each channel where there are tenants."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from qioi.experiment.spec import Timing
from qioi.experiment.system import LoadSpec
from qioi.lab.figures import LoadFigures, Series
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadResult, LoadRun, read_result

#: A box plot's parts, as the client's result names them.
QUARTILES = ("min", "p25", "p50", "p75", "max")


@dataclass(frozen=True, slots=True)
class Driven:
    """What a driver found. ``start`` and ``end`` bound the window (epoch seconds); ``more`` are further metrics."""

    figures: LoadFigures
    start: float
    end: float
    throughput: Series
    p95: Series
    more: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drive:
    """One cell's load on a lab; files go to the folder ``at``."""

    lab: Lab
    spec: LoadSpec
    timing: Timing
    seed: int
    at: Path

    def plan(self, rate: float | None, *flags: str) -> LoadPlan:
        """Format it for the bundled client; ``rate`` in tps, none in a closed loop."""
        timing, spec = self.timing, self.spec
        extra = (*client_flags(spec), *flags)
        return LoadPlan(timing.duration, timing.warmup, rate, spec.clients, self.seed, extra, timing.cooldown)


class Driver(Protocol):
    """A driver that runs."""

    def began(self) -> float | None:
        """Give when the warm-up began (epoch seconds), as far as it is known; ``None`` before."""
        ...

    def running(self) -> bool:
        """Whether it still sends or drains."""
        ...

    def result(self) -> Driven:
        """Read what it found, once it has ended."""
        ...


class Bundled:
    """The bundled load client."""

    def __init__(self, stack: contextlib.ExitStack, drive: Drive, rate: float | None) -> None:
        self._file = drive.at / "load.json"
        self._run = stack.enter_context(LoadRun(drive.lab, drive.plan(rate), drive.at))

    def began(self) -> float | None:
        """Give when it began to send; ``None`` while it connects and prepares."""
        return self._run.began()

    def running(self) -> bool:
        """Whether it still sends or drains."""
        return self._run.running()

    def result(self) -> Driven:
        """Read load.json."""
        found = read_result(self._run, self._file)
        return Driven(
            found.figures,
            found.start,
            found.end,
            found.throughput,
            found.p95,
            stages(json.loads(self._file.read_text(encoding="utf-8"))),
        )


class Tenants:
    """A load client for each channel. Their sums are the cell's metrics; each channel's own are under ``tenant.``."""

    def __init__(self, stack: contextlib.ExitStack, drive: Drive, rates: dict[str, float]) -> None:
        self._runs = {}
        for channel, rate in rates.items():
            folder = drive.at / f"load-{channel}"
            folder.mkdir(exist_ok=True)
            run = LoadRun(drive.lab, drive.plan(rate, "--channel", channel), folder)
            self._runs[channel] = (stack.enter_context(run), folder / "load.json")

    def began(self) -> float | None:
        """Give when the first began to send; ``None`` until all do."""
        begun = [run.began() for run, _ in self._runs.values()]
        known = [one for one in begun if one is not None]
        return min(known) if len(known) == len(begun) else None

    def running(self) -> bool:
        """Whether any still sends or drains."""
        return any([run.running() for run, _ in self._runs.values()])

    def result(self) -> Driven:
        """Read all."""
        results = {channel: read_result(run, file) for channel, (run, file) in self._runs.items()}
        more = {
            f"tenant.{channel}.{name}": value
            for channel, found in results.items()
            for name, value in client_metrics(found.figures).items()
        }
        all_of_them = together(tuple(results.values()))
        return Driven(
            all_of_them.figures,
            all_of_them.start,
            all_of_them.end,
            all_of_them.throughput,
            all_of_them.p95,
            more,
        )


def together(results: Sequence[LoadResult]) -> LoadResult:
    """Combine several clients: the sums, the mean latency of all that was committed, and the largest of each other one.

    Where one of them has no latency, as it has committed nothing, they have none together: 0, which means nothing.
    """
    every = [result.figures for result in results]
    offered = [one.offered for one in every if one.offered is not None]
    committed = sum(one.committed for one in every)
    timed = every if all(one.committed for one in every) else []
    figures = LoadFigures(
        offered=sum(offered) if offered else None,
        throughput=sum(one.throughput for one in every),
        mean=sum(one.mean * one.committed for one in timed) / committed if timed else 0.0,
        p50=max((one.p50 for one in timed), default=0.0),
        p95=max((one.p95 for one in timed), default=0.0),
        p99=max((one.p99 for one in timed), default=0.0),
        maximum=max((one.maximum for one in timed), default=0.0),
        committed=committed,
        failed=sum(one.failed for one in every),
    )
    start = min(result.start for result in results)
    totals: dict[int, float] = {}
    worst: dict[int, float] = {}
    for result in results:
        for at, value in result.throughput:
            second = round(at + result.start)
            totals[second] = totals.get(second, 0.0) + value
        for at, value in result.p95:
            second = round(at + result.start)
            worst[second] = max(worst.get(second, 0.0), value)
    return LoadResult(figures, start, max(result.end for result in results), since(totals, start), since(worst, start))


def since(values: Mapping[int, float], start: float) -> Series:
    """Format values by epoch seconds as a series."""
    return tuple((second - start, value) for second, value in sorted(values.items()))


def client_metrics(load: LoadFigures) -> dict[str, float]:
    """Format a client's figures; where nothing was committed, by one of several clients too, there is no latency."""
    due = load.committed + load.failed
    metrics = {
        "throughput": load.throughput,
        "failed": float(load.failed),
        "goodput": 100 * load.committed / due if due else 0.0,
    }
    if load.offered is not None:
        metrics["offered"] = load.offered
    if load.committed and load.maximum:
        metrics |= {"mean": load.mean, "p50": load.p50, "p95": load.p95, "p99": load.p99}
    return metrics


def client_flags(spec: LoadSpec) -> tuple[str, ...]:
    """Format what is further asked of `qioi-ledger load`."""
    flags = {
        "--chaincode": spec.chaincode,
        "--workload": spec.workload,
        "--value-size": spec.value_size,
        "--accounts": spec.accounts,
        "--hot-keys": spec.hot_keys,
        "--hot-share": spec.hot_share,
        "--read-share": spec.read_share,
        "--zipf": spec.zipf,
        "--burst": spec.burst,
        "--fresh": spec.fresh,
        "--consistency": spec.consistency,
    }
    spelled = [text for flag, value in flags.items() if value is not None for text in (flag, str(value))]
    switches = [flag for flag, on in (("--breakdown", spec.breakdown), ("--queries", spec.queries)) if on]
    return (*spelled, *switches)


def stages(document: dict[str, Any]) -> dict[str, float]:
    """Take the mean time of each stage in ms: the client's, and the nodes' own where they were asked (busy in %).

    Each kind of operation has its count, and its minimum, quartiles and maximum in ms, under ``kind.NAME``.
    """
    # Where nothing was committed there are no times.
    timed = document["stages_ms"] if document["committed"] else {}
    found = {f"stage.{name}": float(latency["mean"]) for name, latency in timed.items()}
    for name, kind in document.get("kinds", {}).items():
        found[f"kind.{name}.count"] = float(kind["committed"])
        found |= {f"kind.{name}.{part}": float(kind["latency_ms"][part]) for part in QUARTILES}
    breakdown = document.get("breakdown")
    if breakdown:
        found |= (nodes := {f"node.{one['stage']}": float(one["mean_ms"]) for one in breakdown["stages"]})
        if document["committed"]:
            found |= parts(nodes, float(document["latency_ms"]["mean"]))
        for one in breakdown["busy"]:
            name = f"busy.{one['stage']}"
            found[name] = max(found.get(name, 0.0), 100 * float(one["share"]))
    return found


def parts(nodes: Mapping[str, float], mean: float) -> dict[str, float]:
    """Give each stage's part of the mean latency in %, all in ms: ordering is what the nodes' other stages leave.

    So it has the wait for a block, and the ways between client, orderers and peers. There are none where a stage was
    not seen.
    """
    if not {"node.endorse", "node.validate", "node.flush"} <= nodes.keys():
        return {}
    spent = {"endorse": nodes["node.endorse"], "validate": nodes["node.validate"] + nodes["node.flush"]}
    spent["order"] = max(0.0, mean - sum(spent.values()))
    return {f"part.{stage}": 100 * ms / mean for stage, ms in spent.items()}
