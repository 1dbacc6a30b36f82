"""Where this host keeps its CPU controller, and in which unit: cgroup v1, v2, or both mounted (hybrid).

Sources: proc(5) on mountinfo; kernel Documentation/admin-guide/cgroup-v1/cgroups.rst, cgroup-v2.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qioi.kernel.errors import CgroupError
from qioi.model import DEFAULT_SHARES, MAX_SHARES, MIN_SHARES

MOUNTINFO = Path("/proc/self/mountinfo")
MIN_WEIGHT = 1
MAX_WEIGHT = 10_000


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy that has the CPU controller."""

    version: int
    mount: Path

    @property
    def file(self) -> str:
        """Name of the file in a group that holds its weight."""
        return "cpu.shares" if self.version == 1 else "cpu.weight"

    def folder(self, path: str) -> Path:
        """Give the folder of the group at ``path``, relative to the mount."""
        return self.mount / path

    def raw(self, shares: int, found: int) -> int:
        """Convert v1 units into the file's own.

        v1: they are the same. v2: ``shares`` is to 1024 as the weight is to the one that was ``found``, because
        runtimes and systemd disagree about what weight 1024 shares are (39 or 100).
        """
        if self.version == 1:
            return max(MIN_SHARES, min(MAX_SHARES, shares))
        return max(MIN_WEIGHT, min(MAX_WEIGHT, round(found * shares / DEFAULT_SHARES)))

    def shares(self, raw: int, found: int) -> int:
        """Convert the file's own unit into v1 units: the inverse of :meth:`raw`, up to rounding."""
        if self.version == 1:
            return raw
        return max(MIN_SHARES, min(MAX_SHARES, round(raw * DEFAULT_SHARES / max(MIN_WEIGHT, found))))

    def found(self, raw: int) -> int:
        """Give in v1 units what a group was found with: ``shares(raw, raw)``."""
        return raw if self.version == 1 else DEFAULT_SHARES


def find_hierarchy(mountinfo: Path = MOUNTINFO) -> Hierarchy:
    """Find the CPU controller. A controller that v1 has is not in v2, so v1 comes first. CgroupError: there is none."""
    v2: list[Path] = []
    for mount, kind, options in mounts(mountinfo):
        if kind == "cgroup" and "cpu" in options:
            return Hierarchy(1, mount)
        if kind == "cgroup2":
            v2.append(mount)
    for mount in v2:
        controllers = mount / "cgroup.controllers"
        if controllers.exists() and "cpu" in controllers.read_text(encoding="utf-8").split():
            return Hierarchy(2, mount)
    raise CgroupError(f"no CPU controller in {mountinfo}: wanted is a mounted cgroup v1 `cpu`, or cgroup v2 with `cpu`")


def mounts(mountinfo: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """Give each mount's point, kind and options. Users may mount too, so that a point may have any name."""
    for line in os.fsdecode(mountinfo.read_bytes()).split("\n"):
        left, _, right = line.partition(" - ")
        if right:
            kind, _, options = right.split(" ", 2)
            yield Path(unescape(left.split(" ")[4])), kind, options.rsplit(" ", 1)[-1].split(",")


def unescape(field: str) -> str:
    r"""Undo mountinfo's octal escapes, such as ``\040`` for a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
