"""A host for tests: a hierarchy, real or a fake of v2, and a way to the weights in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.levers.files import Access
from qioi.controller.levers.shares import Shares
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy


@dataclass
class Host:
    """A hierarchy, a way to it, and a parent group in it that the test may do anything in."""

    hierarchy: Hierarchy
    access: Access
    parent: str

    def make(self, name: str, value: int | None = None) -> str:
        path = f"{self.parent}/{name}"
        folder = self.hierarchy.folder(path)
        folder.mkdir()
        if not (folder / self.hierarchy.file).exists():  # the fake of cgroup v2
            (folder / self.hierarchy.file).write_text("100\n")
        if value is not None:
            self.set(path, value)
        return path

    def remove(self, path: str) -> None:
        folder = self.hierarchy.folder(path)
        if self.hierarchy.mount != real_mount():
            (folder / self.hierarchy.file).unlink()
        folder.rmdir()

    def set(self, path: str, value: int) -> None:
        (self.hierarchy.folder(path) / self.hierarchy.file).write_text(str(value))

    def write(self, path: str, value: int) -> None:
        """Write through the actuator."""
        self.access.write(path, value, Shares(self.hierarchy, self.access).identity(path))

    def get(self, path: str) -> int:
        return int((self.hierarchy.folder(path) / self.hierarchy.file).read_text())

    def guard(self, journal: Journal) -> Guard:
        return Guard(self.hierarchy, self.access, journal)


def real_mount() -> Path | None:
    try:
        return find_hierarchy().mount
    except CgroupError:
        return None
