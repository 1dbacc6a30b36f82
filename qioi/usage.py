"""CPU time of control groups, those below them included: cpuacct (v1), or cpu.stat (v2).

Sources: kernel Documentation/admin-guide/cgroup-v1/cpuacct.rst, cgroup-v2.rst. On v1 the controller may be mounted
apart; container engines and systemd keep the same paths in both. A group that is in the one only is not known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from qioi.controller.hierarchy import MOUNTINFO, Hierarchy, unescape
from qioi.controller.levels import Levels, Placement, above
from qioi.types import Component, DelayReading


def find_accounts(hierarchy: Hierarchy, mountinfo: Path = MOUNTINFO) -> Path | None:
    """Find where groups' CPU time is read; ``None`` where this host does not account for it."""
    if hierarchy.version == 2:
        return hierarchy.mount
    for line in mountinfo.read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup" and "cpuacct" in options.rsplit(" ", 1)[-1].split(","):
            return Path(unescape(left.split(" ")[4]))
    return None


class LevelWatch:
    """Reads what the groups above the components used, and has their levels found."""

    def __init__(self, version: int, accounts: Path | None, kept: Iterable[str] = ()) -> None:
        """Begin; ``kept`` are groups that a daemon before this one has left raised on purpose."""
        self.kept = tuple(kept)
        self._version = version
        self._accounts = accounts
        self._levels = Levels(self.kept)
        self._cpus = os.cpu_count() or 1
        self._before: dict[str, tuple[float, float]] = {}

    def read(
        self, now: float, components: Iterable[Component], delays: Mapping[str, DelayReading], raised: Iterable[str]
    ) -> dict[str, Placement]:
        """Give every component's placement, by its group; ``raised`` are groups of components that are raised."""
        components = tuple(components)
        groups = [one.cgroup for one in components]
        used = {}
        seconds: dict[str, tuple[float, float]] = {}
        for group in above(groups):
            total = cpu_seconds(self._version, self._accounts, group)
            if total is None:
                continue
            at, before = self._before.get(group, (now, total))
            seconds[group] = now, total
            if now > at:
                used[group] = (total - before) / (now - at)
        self._before = seconds
        for one in components:
            delay = delays.get(one.name)
            if delay is not None and delay.interval > 0:
                used[one.cgroup] = delay.run / delay.interval
        return self._levels.step(now, groups, used, self._cpus, raised)


def cpu_seconds(version: int, accounts: Path | None, group: str) -> float | None:
    """Read one group's CPU time in seconds; ``None`` where it is not accounted for."""
    if accounts is None:
        return None
    folder = accounts / group
    try:
        if version == 1:
            return int((folder / "cpuacct.usage").read_text()) * 1e-9
        name, _, number = (folder / "cpu.stat").read_text().partition("\n")[0].partition(" ")
        return int(number) * 1e-6 if name == "usage_usec" else None
    except (OSError, ValueError):
        return None
