"""Opening regular files in folders that may be another user's.

Such a user may put anything in a file's place. To open a FIFO waits for its other end, to open a device may do
something, and a link leads to a file that only root may read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path


def open_regular(path: str | Path, *, follow: bool = False) -> int:
    """Open a regular file for reading, without waiting. OSError, also where something else is in its place.

    A link is followed only with ``follow``.
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))  # it opens nothing
    try:
        require_regular(place)
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        with contextlib.suppress(OSError):  # it is closed also where that fails, as of one whose server is away
            os.close(place)


def require_regular(descriptor: int) -> None:
    """Refuse what is open and is no regular file. OSError."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def read_regular(path: Path, most: int = -1) -> bytes:
    """Read a regular file, or its first ``most`` bytes, without waiting and without following a link. OSError."""
    with open(open_regular(path), "rb") as file:
        return file.read(most)
