"""A folder that looks like cgroup v2 with a guard over it, and wishes about groups in it."""

from __future__ import annotations

from pathlib import Path

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.levels.placement import Level, Placement
from qioi.controller.levels.wants import Want
from qioi.controller.levers.files import Files
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Decision


class Tree:
    """Groups, their weights and the CPU time that they have used."""

    def __init__(self, folder: Path) -> None:
        self.hierarchy = Hierarchy(2, folder / "cgroup")
        (folder / "state").mkdir(parents=True)
        self.guard = Guard(self.hierarchy, Files(self.hierarchy), Journal(folder / "state"))

    def group(self, path: str, weight: int = 100, seconds: float = 0.0) -> str:
        """Make a group, or have it use more CPU time."""
        folder = self.hierarchy.folder(path)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "cpu.weight").exists():
            (folder / "cpu.weight").write_text(str(weight))
        (folder / "cpu.stat").write_text(f"usage_usec {round(1e6 * seconds)}\n")
        return path

    def held(self, *paths: str) -> None:
        """Have the guard hold groups."""
        for path in paths:
            self.guard.hold(self.group(path))


def want(cgroup: str, shares: int, *groups: str, foreign: float | None = 1.0, channel: str = "red") -> Want:
    """Make a wish of the component named as its group; ``foreign`` is the CPUs that others use beside each group."""
    levels = tuple(Level(group, foreign) for group in groups)
    decision = Decision(cgroup, 1024, shares, "it waits", channel=channel, asks=((0, shares),))
    return Want(decision, cgroup, Placement(groups or (cgroup,), "", levels))
