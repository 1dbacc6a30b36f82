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

#: The most that is read of a file: the journal of a host has some 300 bytes for each group.
MOST_BYTES = 16 << 20


def open_regular(path: str | Path, *, follow: bool = False) -> int:
    """Open a regular file for reading, without waiting. OSError, also where something else is in its place.

    A link is followed only with ``follow``.
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))  # it opens nothing
    try:
        require_regular(place)
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # it names the file, not its descriptor
    finally:
        with contextlib.suppress(OSError):  # it is closed also where that fails, as of one whose server is away
            os.close(place)


def require_regular(descriptor: int) -> None:
    """Refuse what is open and is no regular file. OSError."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def read_own(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a regular file that this user or root has written, without waiting and without following a link.

    OSError, also where it has more bytes, or belongs to another user. What stands in it is acted upon: a journal of
    somebody else's would have root write what they like to any control group.
    """
    with open(open_regular(path), "rb") as file:
        owner = os.fstat(file.fileno()).st_uid
        if owner not in (0, os.geteuid()):
            raise OSError(errno.EPERM, f"belongs to user {owner}, not to root or this user", str(path))
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return content
