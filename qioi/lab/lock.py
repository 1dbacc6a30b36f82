"""One command at a time works on a lab, or measures into a folder."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

from qioi.processes.errors import LabError

#: Seconds to wait for another command on the same lab or folder.
PATIENCE = 5.0


@contextlib.contextmanager
def exclusive(name: str, busy: str) -> Iterator[None]:
    """Hold the lock ``name``; LabError with the text ``busy`` while somebody else does.

    The lock is a name in the abstract socket space (unix(7)): the kernel frees it when its holder dies, and no file
    is left over.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A child of a killed command holds its lock between fork and exec, for a moment.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            lock.bind("\0" + name)
            break
        except OSError:
            if time.monotonic() > deadline:
                lock.close()
                raise LabError(busy) from None
            time.sleep(0.02)
    try:
        yield
    finally:
        lock.close()
