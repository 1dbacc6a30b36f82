"""``cpu.idle`` for groups that are labelled best-effort: an idle group runs when none of its siblings does.

The kernel drops a group's weight when it makes the group idle, and sets the default weight when the group leaves idle
(sched_group_set_idle in kernel/sched/fair.c; read back on 6.18: 3000 shares, idle, not idle, 1024 shares). So the value
of this lever is the weight of an ordinary group and :data:`IDLE` for an idle group; whoever ends the idling restores
the weight. Source: kernel commit 304000390f88 (5.15), cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from qioi.controller.levers.files import Access, explain
from qioi.controller.levers.groups import GroupLever, write_number
from qioi.controller.levers.lever import Identity
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy

FILE = "cpu.idle"
#: This lever's value for an idle group; every weight is larger.
IDLE = 0
#: The weight that an idle group reads as, by cgroup version: 3 of 1024 (WEIGHT_IDLEPRIO). Linux before 6.12 rounds
#: it down to a ``cpu.weight`` of 0, which no other group has.
IDLE_WEIGHT = {1: 3, 2: 1}
#: The weight that the kernel sets when a group leaves idle, by cgroup version.
DEFAULT_WEIGHT = {1: 1024, 2: 100}


class Idle(GroupLever):
    """The lever of ``cpu.idle``, with the weight that idling takes away."""

    file = FILE
    undone = "nothing is made idle"
    released = False

    def __init__(self, hierarchy: Hierarchy, access: Access) -> None:
        super().__init__(hierarchy)
        self._access = access
        self._default = DEFAULT_WEIGHT[hierarchy.version]

    def read(self, path: str) -> int:
        """Read the weight; :data:`IDLE` for an idle group."""
        return IDLE if read_idle(self.hierarchy, path) else self._access.read(path)

    def write(self, path: str, value: int, identity: Identity) -> None:
        """Make a group idle, or an ordinary group of this weight."""
        if value == IDLE:
            write_idle(self.hierarchy, path, 1, identity)
            return
        if read_idle(self.hierarchy, path):
            write_idle(self.hierarchy, path, 0, identity)
        if self._access.read(path) == self._default != value:
            self._access.write(path, value, identity)
        if (now := self._access.read(path)) != value:
            raise CgroupError(f"{self.hierarchy.folder(path)}: it is not idle, but its weight is {now}")

    def original(self, path: str, value: int) -> int:
        """Refuse a group that was idle before: it is left alone. CgroupError."""
        if value == IDLE:
            raise CgroupError(f"{self.hierarchy.folder(path)}: it was idle before")
        return value

    def left_by_us(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Add the default weight, which is in force after somebody else ended the idling, or between our two writes."""
        return (*ours, self._default)

    def says(self, value: int) -> str:
        """Describe a value for an outcome's message."""
        return f"{FILE} = 1" if value == IDLE else f"{FILE} = 0, {self.hierarchy.file} = {value}"


def read_idle(hierarchy: Hierarchy, path: str) -> int:
    """Read ``cpu.idle``. CgroupError."""
    try:
        return int(file_of(hierarchy, path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CgroupError(f"{file_of(hierarchy, path)}: {error}") from None
    except OSError as error:
        raise without(hierarchy, path, error) from error


def is_idle(hierarchy: Hierarchy, path: str) -> bool:
    """Whether a group is idle; ``False`` where the kernel has no ``cpu.idle`` or it cannot be read."""
    try:
        return read_idle(hierarchy, path) == 1
    except CgroupError:
        return False


def write_idle(hierarchy: Hierarchy, path: str, value: int, identity: Identity) -> None:
    """Write ``cpu.idle`` of the group with this identity. CgroupError."""
    try:
        write_number(hierarchy, path, FILE, value, identity)
    except OSError as error:
        raise without(hierarchy, path, error) from error


def file_of(hierarchy: Hierarchy, path: str) -> Path:
    """Give the path of the group's ``cpu.idle``."""
    return hierarchy.folder(path) / FILE


def without(hierarchy: Hierarchy, path: str, error: OSError) -> CgroupError:
    """Make the error that explains why ``cpu.idle`` could not be read or written."""
    file = file_of(hierarchy, path)
    # A Path raises where the kernel can't tell now, as without memory for it.
    if not os.path.isdir(file.parent):  # noqa: PTH112
        return explain(error.errno or 0, hierarchy, path)
    if error.errno == errno.ENOENT:
        return CgroupError(f"{file}: no such file: accepted are groups of Linux 5.15 or newer")
    return CgroupError(f"{file}: {error.strerror}")
