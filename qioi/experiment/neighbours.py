"""The neighbours of an arm behind one interface: prepare, start, check, stop, and what caps them."""

from __future__ import annotations

import os
from typing import Protocol

from qioi.interference.spark import DRIVER, MASTER
from qioi.lab.figures import Series
from qioi.processes.cgroups import Group

#: Period of a CPU quota, in microseconds (the kernel's own default: sched-bwc.rst).
QUOTA_PERIOD = 100_000


class Neighbours(Protocol):
    """The interface of every kind. Work is in the kind's own unit per second."""

    names: tuple[str, ...]
    unit: str

    @property
    def groups(self) -> tuple[Group, ...]:
        """Their control groups."""
        ...

    def prepare(self) -> None:
        """Make groups, and start what takes long to start."""
        ...

    def start(self) -> None:
        """Start them."""
        ...

    def check(self) -> None:
        """Raise if one has ended by itself."""
        ...

    def stop(self) -> None:
        """End them, leaving only logs. A second call is harmless."""
        ...

    def work(self, since: float, until: float) -> float | None:
        """Give the work done per second within [since, until], epoch seconds; ``None`` if it is not known."""
        ...

    def over_time(self) -> Series:
        """Give the work per second by epoch seconds, where the kind reports it."""
        ...


class Untold:
    """What neighbours say whose work is not known: their CPU time is all that counts."""

    unit = ""

    def work(self, since: float, until: float) -> float | None:
        """Give nothing."""
        return None

    def over_time(self) -> Series:
        """Give nothing."""
        return ()


class Nobody(Untold):
    """No neighbours."""

    names: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()

    def prepare(self) -> None:
        """Do nothing."""

    start = check = stop = prepare


def cap(quota: float, neighbours: Neighbours) -> None:
    """Cap the CPU time of all that work together, at this part of the host's, to equal parts.

    Spark's master and driver are not capped: they use little, and the workers could not use the rest of their parts.
    """
    named = zip(neighbours.names, neighbours.groups, strict=True)
    working = [group for name, group in named if name not in {MASTER, DRIVER}]
    for group in working:
        set_quota(group, quota * len(os.sched_getaffinity(0)) / len(working))


def set_quota(group: Group, cores: float) -> None:
    """Cap a group's CPU time; the cap ends with the group."""
    quota = max(1000, round(cores * QUOTA_PERIOD))
    directory = group.directories[0]
    if group.mounts.hierarchy.version == 1:
        (directory / "cpu.cfs_period_us").write_text(str(QUOTA_PERIOD), encoding="utf-8")
        (directory / "cpu.cfs_quota_us").write_text(str(quota), encoding="utf-8")
    else:
        (directory / "cpu.max").write_text(f"{quota} {QUOTA_PERIOD}", encoding="utf-8")
