"""Caliper as the driver of a cell: one round of a benchmark, and what is made of its progress."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from qioi.experiment.drivers import Drive, Driven
from qioi.experiment.spec import Timing
from qioi.kernel.child import Child
from qioi.lab.figures import LoadFigures
from qioi.processes.errors import BusyError, LabError
from qioi.processes.launch import last_lines

_PROGRESS = re.compile(r"^(?P<label>.*): (?P<submitted>\d+) submitted, (?P<succeeded>\d+) succeeded, (?P<failed>\d+)")
#: Seconds that Caliper may take beyond its round: installing nothing, connecting, preparing, draining.
CALIPER_SLACK = 240.0
#: Least seconds of its round: it tells its progress every 2 s, and a window as short as a smoke run's needs two counts.
CALIPER_ROUND = 6.0


class Progress(NamedTuple):
    """What Caliper told of a round at a time (epoch seconds): how many were submitted and succeeded so far."""

    at: float
    submitted: int
    succeeded: int


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
        self._progress: list[Progress] = []
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
        command += ["--dir", str(drive.lab.directory), "--duration", f"{math.ceil(seconds)}"]
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
                self._progress.append(Progress(now, int(match["submitted"]), int(match["succeeded"])))
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
        return caliper_result(document["rounds"][0], self._progress, self._timing)

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


def caliper_result(entry: Mapping[str, Any], told: Sequence[Progress], timing: Timing) -> Driven:
    """Cut warm-up and cool-down off what Caliper ``told`` of a round, which begins when something is submitted.

    Of a round that committed nothing latencies are 0 and mean nothing. BusyError: too little was told of its progress.
    """
    latency = entry["latency_ms"]
    if latency is None and entry["succeeded"] != 0:
        raise LabError(f"Caliper's round {entry['label']} has no latencies: {entry['failure'] or entry['errors']}")
    if not told:
        raise BusyError(f"Caliper told nothing of the progress of its round {entry['label']}")
    # Not when something has succeeded: beside neighbours that may be long after.
    begun = next((one.at for one in told if one.submitted > 0), told[0].at)
    # Caliper's later counts leave out what a worker that has ended had done.
    most = itertools.accumulate((one.succeeded for one in told), max)
    points = [(one.at, one.succeeded) for one, known in zip(told, most, strict=True) if one.succeeded >= known]
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
