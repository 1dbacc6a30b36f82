"""One daemon per host: a lock on a file in the state folder, which the kernel frees with its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class LockedError(Exception):
    """Another process holds the lock."""


class HostLock:
    """Held from construction until :meth:`close`, or the end of the process."""

    def __init__(self, state_dir: Path) -> None:
        path = state_dir / "lock"
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._descriptor, 32).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise LockedError(f"{path}: a QiOi daemon is running already (pid {holder or 'unknown'})") from None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, b"%d\n" % os.getpid())

    def close(self) -> None:
        """Free the lock. The file stays: removing it would let two others lock two files of one name."""
        os.close(self._descriptor)
