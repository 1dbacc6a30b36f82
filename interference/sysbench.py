"""sysbench's CPU test as an interferer: N of them, each a process in a control group of its own.

Each instance computes prime numbers on one thread and reports its events per second once a second. The reports go to a
file per instance and are read on demand, so no thread of ours runs beside the measurement. A report's time is the
instance's start plus the whole second that it reports, good to about a second.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from qioi.interference.instances import Instances
from qioi.model import DEFAULT_SHARES
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree

_REPORT = re.compile(r"^\[ (\d+)s \] thds: \d+ eps: (\d+(?:\.\d+)?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Report:
    """One line of one instance: events per second over the second that ended at ``time`` (epoch)."""

    instance: str
    time: float
    events_per_second: float


def sysbench_binary() -> str:
    """Find sysbench, or name the package that brings it."""
    found = shutil.which("sysbench")
    if found is None:
        raise LabError("sysbench is not installed: `apt-get install sysbench` (package sysbench) brings it")
    return found


def parse_reports(text: str, instance: str, started: float) -> list[Report]:
    """Read interval reports; every other line, and a last line that is not complete, is skipped."""
    complete = text[: text.rfind("\n") + 1]
    return [Report(instance, started + int(match[1]), float(match[2])) for match in _REPORT.finditer(complete)]


class Sysbench(Instances):
    """N instances below ``tree``. Use it as a context manager, so that none outlives its purpose."""

    COMMAND = ("cpu", "--threads=1", "--time=0", "--report-interval=1", "run")

    def __init__(self, tree: Tree, count: int, directory: Path, shares: int = DEFAULT_SHARES) -> None:
        if count < 0:
            raise LabError(f"{count} sysbench processes were asked for; 0 or more can be had")
        super().__init__(tree, "sysbench", count, directory, shares)
        self._started: dict[str, float] = {}

    def command(self, name: str) -> list[str]:
        """Give what each runs."""
        return [sysbench_binary(), *self.COMMAND]

    def prepare(self) -> None:
        """Prepare a place for each instance, so that all start at once. LabError: sysbench is not installed."""
        sysbench_binary()
        super().prepare()

    def _start(self, name: str) -> None:
        self._started[name] = time.time()
        super()._start(name)

    def reports(self) -> list[Report]:
        """Every report so far, of all instances, in the order of time."""
        found: list[Report] = []
        for name, started in self._started.items():
            log = self._log(name)
            if log.exists():
                found += parse_reports(log.read_text(errors="replace", encoding="utf-8"), name, started)
        return sorted(found, key=lambda report: report.time)

    def cpu_seconds(self) -> float:
        """CPU time that all instances together have had, in seconds."""
        return sum(group.cpu_seconds() for group in self.groups)

    def __enter__(self) -> Sysbench:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def rates(reports: list[Report], since: float, until: float) -> dict[str, float]:
    """Mean events per second of each instance over the reports that ended within [since, until].

    An instance that waits for seconds at a time reports too much: beside shares of 131,072 all together said twice what
    their CPU time allows.
    """
    sums: dict[str, list[float]] = {}
    for report in reports:
        if since <= report.time <= until:
            sums.setdefault(report.instance, []).append(report.events_per_second)
    return {name: sum(values) / len(values) for name, values in sums.items()}


def total_over_time(reports: list[Report], stale: float = 3.0) -> list[tuple[float, float]]:
    """Events per second of all instances together, by whole epoch seconds.

    A starved instance reports late, so each counts with its latest report until that is ``stale``
    seconds old.
    """
    if not reports:
        return []
    latest: dict[str, Report] = {}
    pending = sorted(reports, key=lambda report: report.time)
    totals: list[tuple[float, float]] = []
    for second in range(round(pending[0].time), round(pending[-1].time) + 1):
        while pending and round(pending[0].time) <= second:
            report = pending.pop(0)
            latest[report.instance] = report
        fresh = (report for report in latest.values() if second - round(report.time) <= stale)
        totals.append((float(second), sum(report.events_per_second for report in fresh)))
    return totals
