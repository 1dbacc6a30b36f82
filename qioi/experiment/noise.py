"""The criteria by which the machine was too noisy for a repeat to count; every page states them.

A noisy repeat is kept and shown, but no median includes it. It is measured again, until there are twice as many repeats
as were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qioi.experiment.kernel_work import kernel_seconds
from qioi.experiment.own_work import own_seconds
from qioi.experiment.task_work import Work, stats
from qioi.lab.machine import Snapshot, between
from qioi.lab.sampler import Sample


@dataclass(frozen=True, slots=True)
class Criterion:
    """A metric of a cell (in %) that must not pass a bound."""

    metric: str
    bound: float
    sentence: str


CRITERIA = (
    Criterion("steal", 3.0, "the hypervisor gave {value:.1f} % of the CPU time to others"),
    Criterion("others", 5.0, "processes outside the lab used {value:.1f} % of the machine"),
    # A switch that was lost joins two slices, or adds a slice to a wait.
    Criterion("perf.lost", 0.1, "perf lost {value:.2g} % of the scheduler's events"),
    Criterion("perf.missed", 5.0, "perf's file was full, and {value:.0f} % of what it was to record are not in it"),
)


@dataclass(frozen=True, slots=True)
class Account:
    """The machine's counters at one time, and the CPU seconds so far that are none of others'.

    ``lab`` are the lab's control groups, or children that have none. ``own`` is this process, with what it runs beside
    the lab; ``kernel`` is the kernel.
    """

    machine: Snapshot
    lab: float
    own: float
    kernel: float


class Accounting:
    """Makes accounts of one measurement, one after the other."""

    def __init__(self) -> None:
        self._own, self._kernel = Work(), Work()

    def account(self, machine: Snapshot, lab: float) -> Account:
        """Account for the machine's and the lab's counters, which were just read."""
        tasks = tuple(stats())
        own, kernel = self._own.seconds(own_seconds(tasks)), self._kernel.seconds(kernel_seconds(tasks))
        return Account(machine, lab, own, kernel)

    def of(self, sample: Sample) -> Account:
        """Account for a sample of all of the lab's groups, which was just taken."""
        return self.account(sample.machine, sum(sample.cpu.values()))


def disturbance(before: Account, after: Account, cores: int) -> dict[str, float]:
    """Give the metrics that say how quiet the machine was, in %; ``others`` are the processes outside of the lab."""
    quiet = between(before.machine, after.machine, cores)
    kernel = after.kernel - before.kernel
    known = after.lab - before.lab + after.own - before.own + kernel
    metrics = {
        "steal": 100 * quiet.steal,
        "kernel": 100 * kernel / quiet.seconds / cores,
        "others": max(0.0, 100 * (quiet.cores_busy - known / quiet.seconds) / cores),
    }
    return metrics if quiet.pressure is None else {**metrics, "pressure": 100 * quiet.pressure}


def complaints(metrics: Mapping[str, float]) -> list[str]:
    """Name what disturbed one cell; empty if it was quiet."""
    return [
        f"{criterion.sentence.format(value=metrics[criterion.metric])} (accepted: {criterion.bound:g} %)"
        for criterion in CRITERIA
        if metrics.get(criterion.metric, 0.0) > criterion.bound
    ]


def stated() -> str:
    """Format the criteria."""
    return "; ".join(f"{criterion.metric} above {criterion.bound:g} % in any cell" for criterion in CRITERIA)
