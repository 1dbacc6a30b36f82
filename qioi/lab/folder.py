"""A lab's folder: the marker that tells it, whose it has to be, and its removal.

What the folder holds is trusted: the marker names an engine's socket and a folder to remove, and a daemon's journal
names files to write. The usual folders stand below /dev/shm, where everybody may make one. So a folder counts only if
it belongs to this user and nobody else may write to it. One that does cannot be exchanged by others there, since
/dev/shm is sticky.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path

from qioi.processes.errors import LabError

#: A file that proves that a folder is a lab's and may be emptied.
MARKER = ".qioi-lab"


def is_ours(folder: Path) -> bool:
    """Whether a folder is there that belongs to this user, is no link, and to which nobody else may write."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def require_ours(folder: Path) -> None:
    """Refuse what is in a folder's place and is not this user's own. LabError."""
    if not is_ours(folder):
        raise LabError(
            f"{folder} is not this user's own: accepted is a folder that belongs to user {os.geteuid()} and to which "
            "nobody else may write (`chown`, `chmod go-w`)"
        )


def resolve(directory: Path) -> Path:
    """Follow links to a lab's folder. LabError: somebody else has put a link in its place."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found = directory.lstat()
        if stat.S_ISLNK(found.st_mode) and found.st_uid not in {0, os.geteuid()}:
            raise LabError(f"{directory} is a link of user {found.st_uid}: remove it, or name another folder")
    return directory.resolve()


def is_marked(folder: Path) -> bool:
    """Whether a folder has a lab's marker. LabError: it has one, but the folder is not this user's own."""
    try:
        (folder / MARKER).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    # The folder's owner is asked after the first look at the marker, and the marker is looked for again after that.
    # Another user may exchange a folder of theirs for another one at any time, but not a folder of this user's. So the
    # second look is in a folder of this user's own.
    require_ours(folder)
    return (folder / MARKER).exists()


def marker_of(folder: Path) -> str:
    """Tell the marker of one lab from that of another one in the same folder; empty where there is none."""
    try:
        found = (folder / MARKER).stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{found.st_ino}-{found.st_mtime_ns}"


def make_folder(folder: Path) -> None:
    """Make a lab's folder, unless it is there. It holds private keys, so nobody else sees into it. LabError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_ours(folder)


def require_empty(folder: Path) -> None:
    """Refuse a folder that holds something, and is no lab's. LabError."""
    if folder.exists() and not is_marked(folder) and any(folder.iterdir()):
        raise LabError(f"{folder} is not empty and no lab's folder; name an empty or a new one with --dir")


def remove_folder(folder: Path) -> None:
    """Remove a lab's folder with all that is in it; one that cannot be removed, as a mount point, stays, empty.

    The marker goes last, so that a removal that was interrupted can be finished.
    """
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name == MARKER):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
