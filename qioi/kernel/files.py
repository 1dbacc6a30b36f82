"""The kernel's small files that are read in every period, kept open: opening one takes ten times as long as reading.

A file that is kept open belongs to its control group, not to the path. Once the group is removed, reading it fails
(ENODEV), even if another group has the path. The number of open files is bounded; the others are opened each time.
"""

from __future__ import annotations

import errno
import os
import resource

#: Bytes read at most: a page, and of a file that holds one number.
_CHUNK = 4096
NUMBER = 32
#: Open files that this process asks for at most.
_MOST = 65_536
#: Sweeps after which files that were not read since are closed.
_EVERY = 30


class KernelFiles:
    """Reads small files by their paths."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most if most is not None else spare_files(4)
        self._kept: dict[str, int] = {}
        self._read: set[str] = set()
        self._sweeps = 0

    def read(self, path: str, most: int = _CHUNK) -> bytes:
        """Read a file's first 4 KB, or ``most`` bytes. OSError: it can't be read; the next call opens it anew.

        Reading one number with room for a page takes a quarter longer.
        """
        descriptor = self._kept.get(path)
        if descriptor is None:
            return self._open(path, most)
        self._read.add(path)
        try:
            return os.pread(descriptor, most, 0)
        except OSError:
            os.close(self._kept.pop(path))
            raise

    def _open(self, path: str, most: int) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        keep = len(self._kept) < self._most
        try:
            text = os.pread(descriptor, most, 0)
        except OSError:
            keep = False
            raise
        finally:
            if not keep:
                os.close(descriptor)
        if keep:
            self._kept[path] = descriptor
            self._read.add(path)
        return text

    def keeps(self, path: str) -> bool:
        """Whether the file is open: the next reading is of the same group as the last one, or fails."""
        return path in self._kept

    def forget(self, path: str) -> None:
        """Close a file; harmless where it is not open. The next reading opens anew."""
        descriptor = self._kept.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def sweep(self) -> None:
        """Close now and then the files that were not read for long. To be called once a period."""
        self._sweeps += 1
        if self._sweeps % _EVERY:
            return
        for path in self._kept.keys() - self._read:
            os.close(self._kept.pop(path))
        self._read.clear()

    def close(self) -> None:
        """Close all; harmless when repeated."""
        while self._kept:
            os.close(self._kept.popitem()[1])


def is_gone(error: OSError) -> bool:
    """Whether a file could not be read because its group is gone, even if another group has the path."""
    return error.errno in (errno.ENODEV, errno.ENOENT)


def allow_files() -> None:
    """Raise this process's limit of open files to what it is allowed, at most 65,536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(_MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def spare_files(part: int, most: int = 16_384) -> int:
    """Give a part (one in so many) of the files that this process may open, and never more than ``most``."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else min(most, soft // part)
