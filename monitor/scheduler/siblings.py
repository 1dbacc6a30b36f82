"""The weights of the foreign control groups beside components that run: what components compete with there."""

from __future__ import annotations

from collections.abc import Mapping

from qioi.kernel.files import NUMBER, KernelFiles
from qioi.kernel.hierarchy import Hierarchy
from qioi.model.groups import parent_of
from qioi.monitor.scheduler.foreign_groups import ForeignGroups

#: CPUs from which on a group is asked for its weight, and from which on it competes for sure.
RUNS, COMPETES = 0.005, 0.25
#: The part of what its weight would bring it, beside its siblings, below which a group wants no more than it has.
WANTS = 0.1


class Siblings:
    """Reads them at most as often as ``foreign`` looks at the groups, which it does only while it is asked to."""

    def __init__(self, foreign: ForeignGroups, hierarchy: Hierarchy, files: KernelFiles | None = None) -> None:
        self._foreign = foreign
        self._hierarchy = hierarchy
        self._files = files or KernelFiles()
        self._at: float | None = None

    def read(self) -> Mapping[str, Mapping[str, int]]:
        """Give the weights in the file's unit, by the group above them; nothing if there was no look since."""
        if self._foreign.looked == self._at:
            return {}
        self._at = self._foreign.looked
        running: dict[str, dict[str, tuple[float, int]]] = {}
        for group, cores in self._foreign.running(RUNS).items():
            try:
                weight = int(self._files.read(f"{self._hierarchy.mount}/{group}/{self._hierarchy.file}", NUMBER))
            except (OSError, ValueError):
                continue  # it has gone
            running.setdefault(parent_of(group), {})[group] = cores, max(1, weight)
        return {parent: competing(children) for parent, children in running.items()}


def competing(running: Mapping[str, tuple[float, int]]) -> dict[str, int]:
    """Give the weights of those siblings, of which CPUs and weight are known, that want more than they have.

    Who always wants more gets CPUs by its weight. Who gets far less for its weight than another one does, sleeps.
    """
    best = max(cores / weight for cores, weight in running.values())
    return {
        group: weight
        for group, (cores, weight) in running.items()
        if cores >= COMPETES or cores / weight >= WANTS * best
    }
