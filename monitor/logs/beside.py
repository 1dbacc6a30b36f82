"""What stands beside a followed log: its rotated files, and copies of it."""

from __future__ import annotations

import contextlib
import heapq
import os
from itertools import islice

#: How many numbered files, or copies, of a log are looked for.
MAX_NUMBERED = 20
#: Entries of a log's folder that are looked through, and those of its name that are asked when they changed: who may
#: write there decides how many there are.
MAX_ENTRIES, MAX_ASKED = 10_000, 1000
#: Nanoseconds that a rotation takes at most, from the first file that it renames or deletes to the last.
_ROTATION = 20_000_000


def newest_beside(path: str) -> list[str]:
    """Name what may be a copy of the log, under a number or under a date (logrotate's dateext and extension)."""
    folder, name = os.path.split(path)
    found = []
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        stem = name.partition(".")[0]
        alike = (one for one in islice(entries, MAX_ENTRIES) if one.name != name and one.name.startswith(stem))
        for entry in islice(alike, MAX_ASKED):
            with contextlib.suppress(OSError):  # it went meanwhile
                found.append((entry.stat().st_mtime_ns, entry.path))
    return [path for _, path in heapq.nlargest(MAX_NUMBERED, found)]


def modified(fd: int) -> int | None:
    """Say when a file was last written to (ns); ``None`` where it cannot be asked."""
    try:
        return os.fstat(fd).st_mtime_ns
    except OSError:
        return None


def lost_beside(path: str, old: int, oldest: int | None) -> int:
    """Count files of a log that came and went between two looks, as far as can be told.

    ``old`` is the file that was followed, ``oldest`` the oldest of those that came since and are there, both open.
    Where ``old`` was deleted by an earlier rotation than the last, that one has deleted a newer file. Where it was
    compressed, the newer ones that are compressed are lost.
    """
    try:
        known = os.fstat(old)
        if known.st_nlink:
            return 0
        compressed = _compressed_since(path, known.st_mtime_ns)
        if compressed or oldest is None:
            return max(0, compressed - 1)
        return int(os.fstat(oldest).st_ctime_ns - known.st_ctime_ns > _ROTATION)
    except OSError:  # it cannot be asked
        return 0


def _compressed_since(path: str, since: int) -> int:
    """Count the numbered files that are compressed and were last written to at that time (ns) or later."""
    count = 0
    for number in range(1, MAX_NUMBERED + 1):
        with contextlib.suppress(OSError):
            count += os.stat(f"{path}.{number}.gz").st_mtime_ns >= since  # noqa: PTH116 (as in tail.py)
    return count
