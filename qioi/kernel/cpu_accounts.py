"""CPU time of control groups, those below them included: cpuacct (v1), or cpu.stat (v2).

Sources: kernel Documentation/admin-guide/cgroup-v1/cpuacct.rst, cgroup-v2.rst. On v1 the controller may be mounted
apart; container engines and systemd keep the same paths in both. A group that is in one of them only is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from qioi.kernel.files import NUMBER, KernelFiles
from qioi.kernel.hierarchy import MOUNTINFO, Hierarchy, mounts


def find_cpu_accounts(hierarchy: Hierarchy, mountinfo: Path = MOUNTINFO) -> Path | None:
    """Find where groups' CPU time is read; ``None`` where this host does not account for it."""
    if hierarchy.version == 2:
        return hierarchy.mount
    for mount, kind, options in mounts(mountinfo):
        if kind == "cgroup" and "cpuacct" in options:
            return mount
    return None


class CpuAccounts:
    """Reads CPU times; ``mount`` is where the accounts are, ``None`` where the kernel keeps none."""

    def __init__(self, version: int, mount: Path | None, files: KernelFiles | None = None) -> None:
        self._version = version
        self._mount = mount
        self._files = files or KernelFiles()

    def file(self, group: str) -> str:
        """Name the file that one group's CPU time is read in; empty where it is not accounted for."""
        return f"{self._mount}/{group}/{'cpuacct.usage' if self._version == 1 else 'cpu.stat'}" if self._mount else ""

    def nanoseconds(self, group: str) -> int | None:
        """Read one group's CPU time in ns; ``None`` where it is not accounted for."""
        return self.read(self.file(group))

    def read(self, file: str) -> int | None:
        """Read the CPU time in ns in a group's file, as :meth:`file` has named it; ``None`` where it is not there."""
        if not file:
            return None
        try:
            if self._version == 1:
                return int(self._files.read(file, NUMBER))
            name, number = self._files.read(file).split(None, 2)[:2]
            return int(number) * 1000 if name == b"usage_usec" else None
        except (OSError, ValueError):
            return None

    def seconds(self, group: str) -> float | None:
        """Read one group's CPU time in seconds; ``None`` where it is not accounted for."""
        used = self.nanoseconds(group)
        return None if used is None else used * 1e-9


class UsedSince:
    """The CPUs that groups used between two looks."""

    def __init__(self, accounts: CpuAccounts) -> None:
        self._accounts = accounts
        self._at = -math.inf
        self._seconds: Mapping[str, float] = {}

    def look(self, now: float, groups: Iterable[str]) -> dict[str, float]:
        """Give the CPUs that each of these used since the look before, at the monotonic time ``now``.

        A group of which that is not known is missing: it was not looked at then, was made anew, or has no account.
        """
        before, passed = self._seconds, now - self._at
        seconds = ((group, self._accounts.seconds(group)) for group in groups)
        self._seconds, self._at = {group: used for group, used in seconds if used is not None}, now
        if passed <= 0:
            return {}
        return {
            group: (used - before[group]) / passed
            for group, used in self._seconds.items()
            if used >= before.get(group, math.inf)
        }

    def forget(self) -> None:
        """Have nothing to compare the next look with."""
        self._seconds = {}
