"""The load client as a process: its plan, its control group, and what it measured."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from qioi.lab.containers import ContainerRun
from qioi.lab.figures import LoadFigures, Series
from qioi.lab.lab import Lab
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines

#: Seconds that a client may take beyond its plan: connecting, preparing accounts, draining.
SLACK = 90.0
_BEGAN = re.compile(r"^sending since (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Open loop at ``rate`` transactions per second, or closed loop with ``clients``; times in seconds."""

    duration: float
    warmup: float
    rate: float | None = None
    clients: int | None = None
    seed: int = 1
    extra: tuple[str, ...] = ()
    cooldown: float = 0.0

    def arguments(self, result: Path) -> list[str]:
        """Format it as flags of `qioi-ledger load`."""
        if (self.rate is None) == (self.clients is None):
            raise LabError("a load has either a rate (open loop) or a number of clients (closed loop)")
        loop = ["--rate", f"{self.rate:g}"] if self.rate is not None else ["--clients", str(self.clients)]
        parts = {"warmup": self.warmup, "duration": self.duration, "cooldown": self.cooldown}
        times = [f"--{part}={seconds:g}s" for part, seconds in parts.items()]
        return [*loop, *times, "--seed", str(self.seed), "--json", str(result), *self.extra]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What the client found. ``start`` and ``end`` bound the measured window (epoch seconds)."""

    figures: LoadFigures
    start: float
    end: float
    throughput: Series
    p95: Series


class LoadRun:
    """One run of the client in its own group. Use it as a context manager: leaving it ends the client."""

    def __init__(self, lab: Lab, plan: LoadPlan, directory: Path, die_with_parent: bool = True) -> None:
        self.plan = plan
        self._lab = lab
        self._result = directory / "load.json"
        self._log = directory / "load.log"
        for left in (self._result, self._log):  # an earlier run's
            left.unlink(missing_ok=True)
        command = lab.load_command(plan.arguments(self._result))
        self._deadline = time.monotonic() + plan.warmup + plan.duration + plan.cooldown + SLACK
        self._began: float | None = None
        self._process = lab.start_client(command, (directory,), log=self._log, die_with_parent=die_with_parent)

    def began(self) -> float | None:
        """Give when it began to send (epoch seconds), as it says itself; ``None`` while it connects and prepares."""
        if self._began is not None:
            return self._began
        if isinstance(self._process, ContainerRun):
            self._process.save()  # the engine has a container's log
        if self._log.exists():
            said = _BEGAN.search(self._log.read_text(errors="replace", encoding="utf-8"))
            self._began = datetime.fromisoformat(said[1]).timestamp() if said else None
        return self._began

    def running(self) -> bool:
        """Whether it still sends or drains; raise if it takes far too long."""
        if self._process.poll() is not None:
            return False
        if time.monotonic() > self._deadline:
            raise LabError(
                f"the load client is {SLACK:.0f} s late; its log {self._log} ends:\n{last_lines(self._log, 5)}"
            )
        return True

    def wait(self, look: Callable[[], None] = lambda: None) -> LoadResult:
        """Wait for its end, during which nothing else is to be done than to ``look``, and read what it found."""
        while self.running():
            self._lab.check()
            look()
            time.sleep(0.1)
        return self.result()

    def result(self) -> LoadResult:
        """Read what it found, once it has ended."""
        status = self._process.wait()
        if status != 0 or not self._result.exists():
            raise LabError(f"the load client failed (status {status}); its log ends:\n{last_lines(self._log, 5)}")
        return parse_result(json.loads(self._result.read_text(encoding="utf-8")), self._result)

    def __enter__(self) -> LoadRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def parse_result(document: dict[str, Any], source: Path) -> LoadResult:
    """Read the client's JSON."""
    try:
        start = datetime.fromisoformat(document["started"]).timestamp()
        end = start + float(document["seconds"])
        latency = document["latency_ms"]
        rows = [row for row in document["timeseries"] if row["unix"] + 1 <= end + 0.01]
        figures = LoadFigures(
            offered=float(document["intended_rate"]) or None,
            throughput=float(document["throughput_tps"]),
            mean=float(latency["mean"]),
            p50=float(latency["p50"]),
            p95=float(latency["p95"]),
            p99=float(latency["p99"]),
            maximum=float(latency["max"]),
            committed=int(document["committed"]),
            failed=int(document["failed"]) + int(document["unsent"]),
        )
        return LoadResult(
            figures=figures,
            start=start,
            end=end,
            throughput=tuple((float(row["unix"]) - start, float(row["tps"])) for row in rows),
            p95=tuple((float(row["unix"]) - start, float(row["p95_ms"])) for row in rows if row["tps"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(
            f"{source} is no result of this version's load client: {type(error).__name__} {error}"
        ) from error


def read_result(run: LoadRun, file: Path) -> LoadResult:
    """Read what a load client found. A window without a commit is a result if any transaction was due in it.

    Its latencies are 0 and mean nothing. In a closed loop none need be due: all clients may wait for what they sent
    before the window. LabError: the client failed in another way.
    """
    try:
        return run.result()
    except LabError:
        document = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        # With a backlog longer than the window, transactions that were due in it are never sent.
        due = document.get("sent") or document.get("unsent") or document.get("intended_rate") == 0
        if document.get("committed") != 0 or not due:
            raise
        return parse_result(document, file)
