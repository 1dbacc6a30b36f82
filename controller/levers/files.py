"""Shares through the files of the cgroup file system."""

from __future__ import annotations

import errno
import os
from typing import Protocol

from qioi.controller.levers.groups import write_number
from qioi.controller.levers.lever import Identity
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy


class Access(Protocol):
    """Reads and writes a group's weight, in the file's own unit. ``path`` is relative to the controller's mount."""

    @property
    def name(self) -> str:
        """The name in the configuration."""
        ...

    def read(self, path: str) -> int:
        """Read the weight. CgroupError."""
        ...

    def write(self, path: str, value: int, identity: Identity) -> None:
        """Write the weight of the group with this identity. CgroupError.

        The caller has checked the identity, and reads back whether the kernel took the weight.
        """
        ...


class Files:
    """Access through the files, which every host has."""

    name = "files"

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy

    def read(self, path: str) -> int:
        """Read ``cpu.shares`` or ``cpu.weight``."""
        file = f"{self._hierarchy.folder(path)}/{self._hierarchy.file}"
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                text = os.read(descriptor, 64)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise explain(error.errno or 0, self._hierarchy, path) from error
        try:
            return int(text)
        except ValueError:
            raise CgroupError(f"{file}: {text!r} is no number") from None

    def write(self, path: str, value: int, identity: Identity) -> None:
        """Write ``cpu.shares`` or ``cpu.weight``; nothing where another group has the path since the check."""
        try:
            write_number(self._hierarchy, path, self._hierarchy.file, value, identity)
        except OSError as error:
            raise explain(error.errno or 0, self._hierarchy, path) from error


def explain(number: int, hierarchy: Hierarchy, path: str) -> CgroupError:
    """Make the error that explains an errno; it tells a removed group from one without the controller."""
    folder = hierarchy.folder(path)
    if not os.access(folder, os.F_OK):  # Path.is_dir() raises where a name is too long
        return CgroupGoneError(f"{folder}: no such control group")
    if number == errno.ENOENT:
        hint = ": is `cpu` in its parent's cgroup.subtree_control?" if hierarchy.version == 2 else ""
        return CgroupError(f"{folder} has no {hierarchy.file}{hint}")
    return CgroupError(f"{folder}/{hierarchy.file}: {os.strerror(number)}")
