"""Sample every group of the lab twice a second while an arm runs, and condense the samples afterwards.

Samples are counters. A mean over the measured window is the difference of the counters between the window's first and
last sample, so no average of averages is made.
"""

from __future__ import annotations

import csv
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qioi.lab.figures import RoleFigures, Series
from qioi.lab.machine import Quiet, Snapshot, between, snapshot
from qioi.model import DelayReading, Role
from qioi.monitor.scheduler.schedstat import SchedstatReader
from qioi.processes.cgroups import Group
from qioi.processes.errors import BusyError

#: Seconds between two samples.
PERIOD = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters at one time. ``cpu`` is in seconds since each group was made; ``delays`` are since the last sample."""

    time: float
    shares: dict[str, int]
    cpu: dict[str, float]
    delays: dict[str, DelayReading]
    machine: Snapshot


class Sampler:
    """Takes samples of the named groups, and of ``components`` their scheduling delay. It must be closed."""

    def __init__(self, components: Mapping[str, Group], others: Mapping[str, Group]) -> None:
        self._components = components
        self._groups = {**components, **others}
        self._reader = SchedstatReader()
        self._reader.watch({name: group.directories[0] for name, group in components.items()})
        self.samples: list[Sample] = []

    def follow(self, others: Mapping[str, Group]) -> None:
        """Sample these groups from now on as well."""
        self._groups |= others

    def close(self) -> None:
        """Close the threads' files."""
        self._reader.close()

    def sample(self) -> None:
        """Take a sample."""
        delays = {reading.component: reading for reading in self._reader.read(time.monotonic())}
        before = self.samples[-1].cpu if self.samples else {}
        self.samples.append(
            Sample(
                time=time.time(),
                shares={name: group.shares() for name, group in self._components.items() if group.exists},
                # A container's CPU account goes with it, so the last value that was seen stands for it.
                cpu=before | {name: group.cpu_seconds() for name, group in self._groups.items() if group.exists},
                delays=delays,
                machine=snapshot(),
            )
        )


@dataclass(frozen=True, slots=True)
class Window:
    """The measured part of an arm: its samples, and the samples from its warm-up on, for plots."""

    start: float
    samples: Sequence[Sample]
    shown: Sequence[Sample]

    @property
    def seconds(self) -> float:
        """Time between the first and the last sample of the window."""
        return self.samples[-1].time - self.samples[0].time

    def cores(self, names: Iterable[str]) -> float:
        """CPU time per second that the named groups had together."""
        first, last = self.samples[0].cpu, self.samples[-1].cpu
        used = sum(last[name] - first.get(name, 0.0) for name in names if name in last)
        return used / self.seconds

    def role(self, names: Sequence[str]) -> RoleFigures:
        """Condense the scheduling of the named components."""
        readings = [sample.delays[name] for sample in self.samples[1:] for name in names if name in sample.delays]
        run, wait, slices = totals(readings)
        return RoleFigures(
            delay=1000 * wait / slices if slices else 0.0,
            time_slice=1000 * run / slices if slices else 0.0,
            waiting=wait / (run + wait) if run + wait > 0 else 0.0,
            switches=slices / self.seconds,
            cores=self.cores(names),
        )

    def quiet(self, cores: int) -> Quiet:
        """Give the state of the machine as a whole during the window."""
        return between(self.samples[0].machine, self.samples[-1].machine, cores)

    def shares_over_time(self, names: Sequence[str]) -> Series:
        """Mean share of the named components at each sample; a container that ends takes its group with it."""
        points = []
        for sample in self.shown:
            there = [sample.shares[name] for name in names if name in sample.shares]
            if there:
                points.append((sample.time - self.start, sum(there) / len(there)))
        return tuple(points)

    def delay_over_time(self, names: Sequence[str]) -> Series:
        """Mean wait per time slice, in milliseconds, between each two samples; gaps where nothing ran."""
        points = []
        for sample in self.shown:
            _, wait, slices = totals([sample.delays[name] for name in names if name in sample.delays])
            if slices:
                points.append((sample.time - self.start, 1000 * wait / slices))
        return tuple(points)


def window(samples: Sequence[Sample], begin: float, start: float, end: float) -> Window:
    """Cut out [start, end], and from ``begin``, the start of the warm-up, for the plots."""
    inside = [sample for sample in samples if start <= sample.time <= end]
    if len(inside) < 2:
        times = [sample.time for sample in samples]
        gap = max((after - before for before, after in itertools.pairwise(times)), default=0.0)
        raise BusyError(
            f"{len(inside)} samples in a window of {end - start:.0f} s, at least 2 are needed (of {len(times)} in all, "
            f"up to {gap:.0f} s apart): the machine is too busy with other work, or the window too short"
        )
    return Window(start, inside, [sample for sample in samples if begin <= sample.time <= end])


def totals(readings: Iterable[DelayReading]) -> tuple[float, float, int]:
    """Add up run time, waiting time and slices."""
    run, wait, slices = 0.0, 0.0, 0
    for reading in readings:
        run, wait, slices = run + reading.run, wait + reading.wait, slices + reading.slices
    return run, wait, slices


def write_samples(path: Path, samples: Sequence[Sample], roles: Mapping[str, Role]) -> None:
    """Write every sample as CSV, a line per group and sample."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["unix", "name", "role", "shares", "cpu_s", "run_s", "wait_s", "slices", "threads"])
        for sample in samples:
            for name, cpu in sample.cpu.items():
                reading = sample.delays.get(name)
                scheduled = (
                    ("", "", "", "")
                    if reading is None
                    else (f"{reading.run:.6f}", f"{reading.wait:.6f}", reading.slices, reading.threads)
                )
                role = roles[name].value if name in roles else ""
                out.writerow([f"{sample.time:.3f}", name, role, sample.shares.get(name, ""), f"{cpu:.6f}", *scheduled])
