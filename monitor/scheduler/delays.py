"""Scheduling delay of every component, from the scheduler's accounts of the threads in its control group."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

from qioi.kernel.cpu_accounts import CpuAccounts
from qioi.model import Component, DelayReading
from qioi.monitor.scheduler.schedstat import SchedstatReader


class Delays(Protocol):
    """Scheduling delay per component."""

    @property
    def met(self) -> Collection[str]:
        """Name the components that the last call met, so that what these had done before is not known."""
        ...

    def read(self, now: float) -> dict[str, DelayReading]:
        """Account for the time since the last call; a component that could not be read is missing."""
        ...

    def watch(self, components: Iterable[Component]) -> None:
        """Watch these components from now on; those that stay keep their state."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


class CgroupDelays:
    """The scheduler's accounts of every thread in every component's group."""

    def __init__(self, components: Iterable[Component], mount: Path, accounts: CpuAccounts | None = None) -> None:
        """Watch components. With ``accounts``, threads are read only in groups whose CPU time has grown."""
        self._used_files: dict[str, str] = {}
        self._accounts = accounts
        self._reader = SchedstatReader(used=self._used if accounts else None)
        self._mount = mount
        self.watch(components)

    def _used(self, name: str) -> int | None:
        return self._accounts.read(self._used_files[name]) if self._accounts else None

    @property
    def met(self) -> Collection[str]:
        """Name the components that the last reading met."""
        return self._reader.met

    def watch(self, components: Iterable[Component]) -> None:
        """Watch these components from now on."""
        groups = {one.name: one.cgroup for one in components}
        if self._accounts:
            self._used_files = {name: self._accounts.file(group) for name, group in groups.items()}
        self._reader.watch({name: self._mount / group for name, group in groups.items()})

    def read(self, now: float) -> dict[str, DelayReading]:
        """Read every component; one whose group is gone is missing."""
        return {reading.component: reading for reading in self._reader.read(now)}

    def close(self) -> None:
        """Close the kernel's files."""
        self._reader.close()
