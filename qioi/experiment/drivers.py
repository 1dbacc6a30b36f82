"""What drives the ledger in a cell: the bundled load client (one per channel where there are tenants), or Caliper."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from qioi.experiment.spec import Timing
from qioi.experiment.system import LoadSpec
from qioi.kernel.child import Child
from qioi.lab.figures import LoadFigures, Series
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadResult, LoadRun, read_result
from qioi.processes.errors import BusyError, LabError
from qioi.processes.launch import last_lines

_PROGRESS = re.compile(r"^(?P<label>.*): (?P<submitted>\d+) submitted, (?P<succeeded>\d+) succeeded, (?P<failed>\d+)")
#: A box plot's parts, as the client's result names them.
QUARTILES = ("min", "p25", "p50", "p75", "max")
#: Seconds that Caliper may take beyond its round: installing nothing, connecting, preparing, draining.
CALIPER_SLACK = 240.0
#: Least seconds of its round: it tells its progress every 2 s, and a window as short as a smoke run's needs two counts.
CALIPER_ROUND = 6.0


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
            plan = replace(drive.plan(rate, "--channel", channel), clients=None)
            self._runs[channel] = (stack.enter_context(LoadRun(drive.lab, plan, folder)), folder / "load.json")

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


class Caliper:
    """One round of a benchmark by ``qioi lab caliper``, a process of its own.

    Throughput is taken from Caliper's own progress between the end of the warm-up and the beginning of the cool-down;
    latencies are the whole round's, as our observer noted them in Caliper.
    """

    def __init__(self, stack: contextlib.ExitStack, drive: Drive) -> None:
        timing = self._timing = drive.timing
        self._round = str(drive.spec.round)
        self._output = drive.at / "caliper"
        self._log = drive.at / "caliper.txt"
        seconds = max(CALIPER_ROUND, timing.warmup + timing.duration + timing.cooldown)
        self._deadline = time.monotonic() + seconds + CALIPER_SLACK
        self._points: list[tuple[float, int]] = []
        self._started = time.time()
        # When this process dies, the command is told to end, and ends Caliper's own processes in order.
        command = [
            "setpriv",
            "--pdeathsig",
            "TERM",
            "--",
            sys.executable,
            "-m",
            "qioi.cli",
            "lab",
            "caliper",
            str(drive.spec.benchmark),
            "--rounds",
            self._round,
        ]
        command += ["--dir", str(drive.lab.directory), "--duration", f"{round(seconds)}"]
        command += ["--load", str(drive.spec.clients), "--seed", str(drive.seed)]
        with self._log.open("w", encoding="utf-8") as log:
            self._process = Child(
                [*command, "--output", str(self._output)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=unbuffered(),
            )
        self._reader = self._log.open(encoding="utf-8")
        stack.callback(self._stop)

    def began(self) -> float | None:
        """Give when the command was started: its round begins seconds later, at a time that it does not tell."""
        return self._started

    def running(self) -> bool:
        """Whether it runs; notes the progress that it has said."""
        now = time.time()
        for line in self._reader.readlines():
            match = _PROGRESS.match(line)
            if match and match["label"] == self._round:
                self._points.append((now, int(match["succeeded"])))
        if time.monotonic() > self._deadline:
            raise LabError(f"Caliper is {CALIPER_SLACK:.0f} s late; {self._log} ends:\n{last_lines(self._log, 5)}")
        return self._process.poll() is None

    def result(self) -> Driven:
        """Read result.json and the progress."""
        status, document = self._process.wait(), {}
        with contextlib.suppress(FileNotFoundError, ValueError):  # it was killed before, or while it wrote
            document = json.loads((self._output / "result.json").read_text(encoding="utf-8"))
        # The command fails, too, where a round that ran to its end committed nothing.
        if not document or (status != 0 and not starved(document)):
            raise LabError(f"`qioi lab caliper` failed; {self._log} ends:\n{last_lines(self._log, 5)}")
        return caliper_result(document["rounds"][0], self._points, self._timing)

    def _stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.close()


def unbuffered() -> dict[str, str]:
    """Give an environment in which a child writes its lines at once."""
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def starved(document: Mapping[str, Any]) -> bool:
    """Whether Caliper ran the only round of a result.json to its end, sent something, and nothing was committed."""
    entry = document["rounds"][0]
    ended = document["exit_status"] == 0 and entry["failure"] is None
    return bool(ended and entry["succeeded"] == 0 and entry["failed"] > 0)


def caliper_result(entry: Mapping[str, Any], points: Sequence[tuple[float, int]], timing: Timing) -> Driven:
    """Cut warm-up and cool-down off Caliper's progress; ``points`` are (epoch seconds, succeeded so far).

    Of a round that committed nothing latencies are 0 and mean nothing. BusyError: too little was told of its progress.
    """
    latency = entry["latency_ms"]
    if latency is None and entry["succeeded"] != 0:
        raise LabError(f"Caliper's round {entry['label']} has no latencies: {entry['failure'] or entry['errors']}")
    if not points:
        raise BusyError(f"Caliper told nothing of the progress of its round {entry['label']}")
    begun = next((at for at, count in points if count > 0), points[0][0])
    # Caliper's later counts leave out what a worker that has ended had done.
    most = itertools.accumulate((count for _, count in points), max)
    points = [point for point, known in zip(points, most, strict=True) if point[1] >= known]
    start, end = begun + timing.warmup, begun + timing.warmup + timing.duration
    rates = tuple(
        ((one + two) / 2 - start, (after - before) / (two - one))
        for (one, before), (two, after) in itertools.pairwise(points)
        if two > one
    )
    latency = latency or dict.fromkeys(("mean", "p50", "p95", "p99", "max"), 0.0)
    figures = LoadFigures(
        offered=None,
        throughput=progress_rate(points, start, end) if entry["succeeded"] else 0.0,
        mean=float(latency["mean"]),
        p50=float(latency["p50"]),
        p95=float(latency["p95"]),
        p99=float(latency["p99"]),
        maximum=float(latency["max"]),
        committed=int(entry["succeeded"] or 0),
        failed=int(entry["failed"] or 0),
    )
    return Driven(figures, start, end, rates, ())


def progress_rate(points: Sequence[tuple[float, int]], start: float, end: float) -> float:
    """Give what succeeded a second between the first and the last count in [start, end], good to 1 s at both ends.

    Where these are not two, it is between the last count before and the first one after it. BusyError: there are none.
    """
    inside = [(at, count) for at, count in points if start - 1 <= at <= end + 1]
    if not inside or inside[-1][0] <= inside[0][0]:
        before = [point for point in points if point[0] <= start]
        after = [point for point in points if point[0] >= end]
        if not before or not after:
            raise BusyError(
                f"Caliper told of its progress {len(inside)} times in a window of {end - start:.0f} s, at least 2 are "
                "needed: the machine is too busy with other work"
            )
        inside = [before[-1], after[0]]
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


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
