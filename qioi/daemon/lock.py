"""One daemon per host: locks that the kernel frees with their holder.

The one on a file in the state folder keeps `qioi restore` away too. The other one is on the CPU controller's outermost
group. That is one and the same file in all mount, network and PID namespaces of a host, so a daemon with another state
folder meets it as well, also one in a container. It is not met by a container that has only a part of the host's groups
(a cgroup namespace with a mount of its own): such a daemon has none of the host's groups either.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

#: A folder that is locked in place of the outermost group; empty: none is. For a machine that plays several hosts.
HOST_LOCK = "QIOI_HOST_LOCK"


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


class TreeLock:
    """One for all that act on the groups below ``mount``; held from construction until :meth:`close`."""

    def __init__(self, mount: Path) -> None:
        folder = os.environ.get(HOST_LOCK, str(mount))
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if folder else None
        if self._descriptor is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = holder_of(self._descriptor)
            self.close()
            raise LockedError(f"{folder}: a QiOi daemon is running already on this host ({holder})") from None

    def close(self) -> None:
        """Free the lock; harmless when repeated."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holder_of(descriptor: int, locks: Path = Path("/proc/locks")) -> str:
    """Say who holds the lock of an open file. Processes of other PID namespaces are not listed (proc(5))."""
    found = os.fstat(descriptor)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in locks.read_text().splitlines():
        words = line.split()
        if file in words and "FLOCK" in words and "->" not in words:
            return f"pid {words[words.index(file) - 1]}"
    return "in another PID namespace, such as a container's"
