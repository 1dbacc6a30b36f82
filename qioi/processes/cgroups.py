"""CPU control groups: their shares, their CPU time and the processes in them.

On cgroup v1 a group is a directory in the ``cpu`` hierarchy and, where ``cpuacct`` is mounted separately, one of the
same name there (for CPU time). On v2 it is a directory of the unified hierarchy with the cpu controller enabled.
Weights are in v1 units, in which 1024 is the default of both versions.

Sources: kernel Documentation/admin-guide/cgroup-v1/cgroups.rst, cgroup-v2.rst ("CPU").
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from qioi.kernel.cpu_accounts import find_cpu_accounts
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import MOUNTINFO, Hierarchy, find_hierarchy
from qioi.model import DEFAULT_SHARES
from qioi.processes.errors import LabError

#: cgroup v2 ``cpu.weight`` of a new group (kernel: cgroup-v2.rst).
DEFAULT_WEIGHT = 100
#: Tries to remove a group whose last process has just ended, 20 ms apart.
ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class Mounts:
    """Where a group of the lab has its directories: the CPU controller's hierarchy, and where CPU time is read."""

    hierarchy: Hierarchy
    accounts: Path | None = None

    def directories(self, path: str) -> tuple[Path, ...]:
        """Name a group's directories: one, or two where cpuacct is mounted apart."""
        mounts = dict.fromkeys(filter(None, (self.hierarchy.mount, self.accounts)))
        return tuple(mount / path for mount in mounts)


def find_mounts(mountinfo: Path = MOUNTINFO) -> Mounts:
    """Find the mounted CPU controller, as the daemon does. LabError: there is none."""
    try:
        found = find_hierarchy(mountinfo)
    except CgroupError as error:
        raise LabError(str(error)) from None
    return Mounts(found, find_cpu_accounts(found, mountinfo))


@dataclass(frozen=True, slots=True)
class Group:
    """One control group. ``path`` is relative to the controller's mount, as the daemon wants it."""

    mounts: Mounts
    path: str

    @property
    def directories(self) -> tuple[Path, ...]:
        """Give the group's directory in every mount."""
        return self.mounts.directories(self.path)

    @property
    def procs_files(self) -> tuple[Path, ...]:
        """Give the files that a process writes its id to in order to join."""
        return tuple(directory / "cgroup.procs" for directory in self.directories)

    @property
    def exists(self) -> bool:
        """Whether the group is there."""
        return self.directories[0].is_dir()

    @property
    def idle(self) -> bool:
        """Whether the group is idle (``cpu.idle``, Linux 5.15 and later); an idle group takes no shares."""
        file = self.directories[0] / "cpu.idle"
        return file.exists() and file.read_text(encoding="utf-8").strip() == "1"

    def create(self, shares: int = DEFAULT_SHARES) -> Group:
        """Make the group, or use the existing one, and set its shares unless it is idle."""
        try:
            for directory in self.directories:
                directory.mkdir(exist_ok=True)
            if not self.idle:
                self.set_shares(shares)
        except OSError as error:
            raise LabError(
                f"cannot make the control group {self.directories[0]}: {error.strerror} "
                "(the lab needs root and a writable cgroup hierarchy)"
            ) from error
        return self

    def enable_cpu_for_children(self) -> None:
        """On v2, give children a cpu.weight; on v1 every group has cpu.shares."""
        if self.mounts.hierarchy.version == 2:
            enable_cpu(self.directories[0])

    def set_shares(self, shares: int) -> None:
        """Write the weight, given in v1 units."""
        hierarchy = self.mounts.hierarchy
        (self.directories[0] / hierarchy.file).write_text(str(hierarchy.raw(shares, DEFAULT_WEIGHT)), encoding="utf-8")

    def shares(self) -> int:
        """Read the weight back, in v1 units."""
        hierarchy = self.mounts.hierarchy
        return hierarchy.shares(int((self.directories[0] / hierarchy.file).read_text(encoding="utf-8")), DEFAULT_WEIGHT)

    def cpu_seconds(self) -> float:
        """CPU time, user and system, of all processes that were ever in the group, in seconds."""
        if self.mounts.hierarchy.version == 2:
            for line in (self.directories[0] / "cpu.stat").read_text(encoding="utf-8").splitlines():
                key, value = line.split()
                if key == "usage_usec":
                    return int(value) / 1e6
            raise LabError(f"{self.directories[0]}/cpu.stat has no usage_usec")
        if self.mounts.accounts is None:
            raise LabError("no cpuacct controller is mounted: CPU time per group cannot be read")
        return int((self.mounts.accounts / self.path / "cpuacct.usage").read_text(encoding="utf-8")) / 1e9

    def pids(self) -> tuple[int, ...]:
        """List the processes in the group, in any of its mounts; empty when the group is gone."""
        found: set[int] = set()
        for file in self.procs_files:
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in file.read_text(encoding="utf-8").split())
        return tuple(sorted(found - {0}))

    def members(self) -> frozenset[int]:
        """List the processes that have joined the group in every mount."""
        joined = [set(file.read_text(encoding="utf-8").split()) for file in self.procs_files if file.exists()]
        return frozenset(int(pid) for pid in set.intersection(*joined)) if joined else frozenset()

    def signal(self, number: signal.Signals) -> int:
        """Send a signal to every process in the group; return how many there were."""
        pids = self.pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(pids)


def enable_cpu(directory: Path) -> None:
    """Enable the cpu controller for the children of a v2 group."""
    control = directory / "cgroup.subtree_control"
    if "cpu" in control.read_text(encoding="utf-8").split():
        return
    try:
        control.write_text("+cpu", encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot enable the cpu controller in {control}: {error.strerror}") from error


def wait_empty(groups: tuple[Group, ...], timeout: float) -> bool:
    """Wait until no process is left in the groups; ``False`` after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while any(group.pids() for group in groups):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def remove_directories(group: Group) -> None:
    """Remove an empty group's directories; the kernel may need a moment after the last exit.

    A process whose starter was killed just before may still join; it is killed.
    """
    for directory in reversed(group.directories):
        for attempt in range(ATTEMPTS):
            try:
                directory.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                if attempt == ATTEMPTS - 1:
                    raise
                group.signal(signal.SIGKILL)
                time.sleep(0.02)
            else:
                break
