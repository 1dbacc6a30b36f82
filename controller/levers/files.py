"""Shares through the files of the cgroup file system."""

from __future__ import annotations

import errno
import os
from typing import Protocol

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

    def write(self, path: str, value: int) -> None:
        """Write the weight. The caller reads it back to see whether the kernel took it. CgroupError."""
        ...


class Files:
    """Access through the files, which every host has."""

    name = "files"

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy

    def read(self, path: str) -> int:
        """Read ``cpu.shares`` or ``cpu.weight``."""
        text = self._open(path, os.O_RDONLY, None)
        try:
            return int(text)
        except ValueError:
            raise CgroupError(f"{self._file(path)}: {text!r} is no number") from None

    def write(self, path: str, value: int) -> None:
        """Write ``cpu.shares`` or ``cpu.weight``."""
        self._open(path, os.O_WRONLY | os.O_TRUNC, b"%d" % value)

    def _file(self, path: str) -> str:
        return f"{self._hierarchy.folder(path)}/{self._hierarchy.file}"

    def _open(self, path: str, flags: int, data: bytes | None) -> bytes:
        file = self._file(path)
        try:
            descriptor = os.open(file, flags | os.O_CLOEXEC)
            try:
                if data is None:
                    return os.read(descriptor, 64)
                os.write(descriptor, data)
                return b""
            finally:
                os.close(descriptor)
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
