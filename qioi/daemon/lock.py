"""Locks that allow one daemon per host; the kernel frees them with their holder.

The lock on a file in the state folder also excludes `qioi restore`. The other lock is on the CPU controller's outermost
group, which is the same file in all mount, network and PID namespaces of a host. So it also excludes a daemon with
another state folder, or in a container. It does not exclude a daemon in a cgroup namespace with a mount of its own,
which cannot reach the host's other groups.

Whoever may read that group may lock it. So a lock that a user other than root holds keeps no daemon out. Nor does one
whose holder has ended and left its descriptor to a child: a daemon leaves its own to none (O_CLOEXEC).
A holder that /proc hides may be a daemon, so its lock counts as a daemon's.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qioi.kernel.regular import open_regular, require_regular

log = logging.getLogger("qioi")

#: The environment variable with the folder to lock instead of the outermost group; empty: lock none. It is for a
#: machine that plays several hosts.
HOST_LOCK = "QIOI_HOST_LOCK"


class LockedError(Exception):
    """Another process holds the lock."""


class LockError(Exception):
    """What is to be locked cannot be opened or written."""


class HostLock:
    """The lock in the state folder, held from construction until :meth:`close`. LockedError, LockError."""

    def __init__(self, state_dir: Path) -> None:
        path = state_dir / "lock"
        with usable(path, "a file that this user can make and write"):
            self._descriptor, writable = open_lock(path)
        try:
            take(self._descriptor, path)
        except BlockingIOError:
            holder = holder_of(self._descriptor) or os.read(self._descriptor, 32).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise LockedError(f"{path}: a QiOi daemon is running already (pid {holder or 'unknown'})") from None
        if writable:
            with usable(path, "a file that this user can write"):
                self._name_holder()

    def _name_holder(self) -> None:
        """Write who holds the lock. A full disk keeps nobody from holding it, so that values are restored. OSError."""
        os.ftruncate(self._descriptor, 0)
        try:
            os.write(self._descriptor, b"%d\n" % os.getpid())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def close(self) -> None:
        """Free the lock. The file stays, because removing it would let two daemons lock two files of one name."""
        os.close(self._descriptor)


class TreeLock:
    """The lock on the groups below ``mount``, held from construction until :meth:`close`. LockedError, LockError."""

    def __init__(self, mount: Path) -> None:
        folder = os.environ.get(HOST_LOCK, str(mount))
        self._descriptor: int | None = None
        if not folder:
            return
        self._descriptor = open_folder(folder)
        try:
            take(self._descriptor, Path(folder))
        except BlockingIOError:
            former = None
            while (pid := holder_of(self._descriptor)) is not None and pid != former and user_of(pid) is None:
                if self._is_free_now(Path(folder)):
                    return
                former = pid  # it has left the lock to a child, unless another daemon has taken it since
            self.close()
            if (who := stranger(pid)) is not None:
                log.warning("%s: %s the lock that keeps a second daemon out", folder, who)
                return
            raise LockedError(runs_already(folder, pid)) from None

    def _is_free_now(self, folder: Path) -> bool:
        """Lock it where a daemon that has just ended was its holder; say whether that is so. LockError."""
        assert self._descriptor is not None
        try:
            take(self._descriptor, folder)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Free the lock. A second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def daemon_on(mount: Path) -> str | None:
    """Say which daemon keeps a second one off the groups below ``mount``; ``None`` where none is seen. LockError.

    Nothing is locked: a daemon that starts at this instant would find a holder. A daemon in a PID namespace that is
    not below this process' is not seen.
    """
    folder = os.environ.get(HOST_LOCK, str(mount))
    if not folder:
        return None
    descriptor = open_folder(folder)
    try:
        pid = holder_of(descriptor)
    finally:
        os.close(descriptor)
    return None if pid is None or stranger(pid) is not None else runs_already(folder, pid)


def open_folder(folder: str) -> int:
    """Open the folder that is locked for the groups of a host. LockError."""
    with usable(Path(folder), "a folder"):
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def runs_already(folder: str, pid: int | None) -> str:
    """Say that a daemon holds the lock on the groups; ``pid`` is None in another PID namespace."""
    holder = "in another PID namespace, such as a container's" if pid is None else f"pid {pid}"
    if pid is not None and not os.access(status_of(pid), os.R_OK):
        holder += ", a process that /proc hides"
    return f"{folder}: a QiOi daemon is running already on this host ({holder})"


def is_held(state_dir: Path) -> bool:
    """Whether a daemon, or `qioi restore`, holds the lock in the state folder; true where this cannot be told.

    Asking excludes a daemon that starts at this instant. A link is not followed, and a FIFO's writer not waited for.
    """
    try:
        descriptor = os.open(state_dir / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def open_lock(path: Path) -> tuple[int, bool]:
    """Open the lock's file, and say whether it can be written: on a read-only disk values are restored too. OSError.

    What is no regular file is refused: the file that a link leads to would be emptied, and reading a FIFO waits.
    It is opened first, and then looked at: root alone can make a device, which opening may act on.
    """
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS or not path.exists():
            raise
        return open_regular(path), False
    try:
        require_regular(descriptor)
        os.fchmod(descriptor, 0o600)  # who may read it may lock it
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, True


def take(descriptor: int, path: Path) -> None:
    """Lock an open file, or close it if it cannot be locked. BlockingIOError: somebody holds the lock; LockError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        os.close(descriptor)
        raise LockError(f"{path}: {error.strerror}: accepted is a place that can be locked (flock(2))") from None


@contextmanager
def usable(path: Path, accepted: str) -> Iterator[None]:
    """Tell of a file that cannot be used in one line. LockError."""
    try:
        yield
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}: accepted is {accepted}") from None


def holder_of(descriptor: int, locks: Path = Path("/proc/locks")) -> int | None:
    """Name the process that holds an open file's lock; /proc/locks lists none of other PID namespaces (proc(5))."""
    found = os.fstat(descriptor)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in locks.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if file in words and "FLOCK" in words and "->" not in words:
            return int(words[words.index(file) - 1])
    return None


def user_of(pid: int) -> int | None:
    """Give the user who started a process, also by a set-user-ID file such as su; ``None``: it has ended.

    One that /proc hides is taken for root's, since it may be a daemon's.
    """
    try:
        status = status_of(pid).read_bytes()
    except OSError:
        return 0 if exists(pid) else None
    return int(status.partition(b"\nUid:")[2].split(None, 1)[0])


def status_of(pid: int) -> Path:
    """Give the file that tells a process's users; ``hidepid`` hides it from who lacks CAP_SYS_PTRACE (proc(5))."""
    return Path(f"/proc/{pid}/status")


def exists(pid: int) -> bool:
    """Whether there is a process of this number, also one that /proc does not show."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def stranger(pid: int | None) -> str | None:
    """Say of a lock's holder that it holds it, if it can be no daemon; ``pid`` is None in another PID namespace."""
    if pid is None:
        return None
    if (user := user_of(pid)) is None:
        return f"process {pid}, which has ended, has left to another"
    return None if user in {0, os.geteuid()} else f"process {pid} of user {user} holds"
