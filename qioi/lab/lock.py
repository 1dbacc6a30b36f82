"""One command at a time works on a lab, or measures into a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

from qioi.lab.folder import make_folder
from qioi.processes.errors import LabError

#: Seconds to wait for another command on the same lab or folder.
PATIENCE = 5.0


@contextlib.contextmanager
def exclusive(name: str, busy: str) -> Iterator[None]:
    """Hold the lock ``name`` of this user's; LabError with the text ``busy`` while another command of theirs does.

    The locked file is in a folder that is closed to other users, so none of them can hold the lock. It is not in the
    lab's own folder, which may be removed while the lock is held. The kernel frees the lock when its holder dies. The
    file is never removed: another command could then make and lock a new file while this one is still locked.
    """
    folder = lock_folder()
    try:
        make_folder(folder)
        lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise LabError(f"{folder}: {error.strerror}: accepted is a folder in which this user can make files") from None
    try:
        take(lock, busy)
        yield
    finally:
        os.close(lock)


def take(lock: int, busy: str) -> None:
    """Lock an open file, within :data:`PATIENCE`. LabError."""
    # A child of a killed command holds its lock between fork and exec, for a moment.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LabError(busy) from None
            time.sleep(0.02)
        else:
            return


def lock_folder() -> Path:
    """Give the folder of this user's locks, the same for all their commands on this host. LabError: they have no home.

    It follows no variable of the environment, and not the session, whose folder is removed at its end. Several hosts
    may share a home.
    """
    user = os.geteuid()
    if user == 0:
        return Path("/run/qioi-lab")
    try:
        home = Path(pwd.getpwuid(user).pw_dir)
    except KeyError:
        raise LabError(f"user {user} has no home folder (`getent passwd {user}`), where locks stand") from None
    return home / ".cache" / "qioi" / "locks" / os.uname().nodename
