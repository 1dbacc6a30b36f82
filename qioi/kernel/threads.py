"""The threads of a control group and of those below it, cgroup v1 or v2."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from qioi.kernel.files import is_gone

#: Bytes asked for at once; the kernel gives about a page.
_CHUNK = 65_536
#: Levels of control groups below a component's that are read (systemd in a container makes some).
MAX_DEPTH = 4
#: Groups below a component's that are read, those nearest to it first. A component may make as many as it likes, and
#: each takes some 20 us; systemd makes about a hundred.
MAX_BELOW = 1000


def list_name(path: Path) -> str:
    """Find out which file lists a group's threads: the one of cgroup v2 or of v1."""
    for name in ("cgroup.threads", "tasks"):
        if os.path.exists(f"{path}/{name}"):  # noqa: PTH110 (a Path takes longer than the call)
            return name
    raise FileNotFoundError(errno.ENOENT, "no control group", str(path))


def list_threads(folder: str, name: str, depth: int = MAX_DEPTH) -> set[bytes]:
    """List the threads of a group and of those below it, by plain system calls. OSError: it is gone.

    Those in more than :data:`MAX_BELOW` groups below it are left out.
    """
    threads = set(_read_all(f"{folder}/{name}").split())
    level, room = [folder], MAX_BELOW
    for _ in range(depth):
        level = list(islice(_below(level), room))
        if not level:
            break
        room -= len(level)
        for group in level:
            try:
                threads.update(_read_all(f"{group}/{name}").split())
            except OSError as error:
                if not is_gone(error):  # one that went meanwhile has none
                    raise
    return threads


def _below(groups: Iterable[str]) -> Iterator[str]:
    """Give the groups directly below some; one that went meanwhile has none."""
    for group in groups:
        try:
            # A directory's link count is two and one for each directory in it: most have none, and one call tells.
            if os.stat(group).st_nlink > 2:  # noqa: PTH116
                with os.scandir(group) as entries:
                    yield from (entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError as error:
            if not is_gone(error):
                raise


def _read_all(file: str) -> bytes:
    """Read a file of the kernel's to its end."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(descriptor, _CHUNK)
        if len(text) < 1024:  # far less than the kernel gives at once: that was all
            return text
        while more := os.read(descriptor, _CHUNK):
            text += more
        return text
    finally:
        os.close(descriptor)


def threads_now(group: Path) -> set[bytes]:
    """List the threads of a group and of those below it; none where it is gone. OSError: they cannot be listed."""
    try:
        return list_threads(str(group), list_name(group))
    except OSError as error:
        if is_gone(error):
            return set()
        raise


def threads_of(group: Path) -> set[bytes]:
    """List the threads of a group and of those below it; none where it is gone, or where they cannot be listed."""
    try:
        return threads_now(group)
    except OSError:
        return set()
