"""Scheduling delay per component, from ``/proc/TID/schedstat`` of every thread in its control group.

The file's three numbers are the thread's time on a CPU (ns), its time runnable but waiting for one (ns), and how often
it was put on one (kernel: Documentation/scheduler/sched-stats.rst). They only grow, so a reading is the sum of the
threads' differences since the reading before.

What it costs (this kind of machine, 180 threads in 12 groups): opening, reading and closing each file takes 5 us a
thread, reading one that is kept open 1 us. So files are kept open, up to a bound; beyond it they are opened each time.
A kept file belongs to its thread, not to the number: reading it after the thread's end fails, so that a reused number
is never mistaken for the old thread. A group's ``tasks`` (v1) or ``cgroup.threads`` (v2) lists all its threads at once.

What it can't see: what a thread did between the last reading and its end.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qioi.types import DelayReading

_NS = 1e-9
#: A thread can't have run and waited for longer than it exists; this much is allowed for the clocks' difference.
_TOLERANCE = 1.1
#: Bytes asked for at once; the kernel gives a page or so.
_CHUNK = 65_536
#: How deep control groups below a component's are looked into (systemd in a container makes some).
_MAX_DEPTH = 4


@dataclass(slots=True)
class _Thread:
    """The last numbers of one thread, and their text; ``fd`` is -1 where its file is not kept open."""

    fd: int
    run: int
    wait: int
    slices: int
    text: bytes = b""


class _Group:
    """The threads of one component."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = str(path)
        self.list_name: str | None = None
        self.threads: dict[bytes, _Thread] = {}
        self.last: float | None = None


class SchedstatReader:
    """Reads the scheduling delay of components. Open files are bounded by ``max_open``."""

    def __init__(self, max_open: int | None = None) -> None:
        self._max_open = max_open if max_open is not None else _spare_files()
        self._open = 0
        self._groups: dict[str, _Group] = {}
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def open_files(self) -> int:
        """How many threads' files are kept open."""
        return self._open

    def watch(self, groups: Mapping[str, str | Path]) -> None:
        """Say which components there are and where their control groups stand (any controller's mount, v1 or v2)."""
        for name in [name for name in self._groups if name not in groups]:
            self._drop(self._groups.pop(name))
        for name, path in groups.items():
            known = self._groups.get(name)
            if known is not None and known.path == Path(path):
                continue
            if known is not None:
                self._drop(known)
            self._groups[name] = _Group(Path(path))

    def read(self, now: float) -> list[DelayReading]:
        """Read all components at the monotonic time ``now``.

        A component is left out in its first reading, which only sets the mark, and while its group is gone.
        """
        readings = (self._read_group(name, group, now) for name, group in self._groups.items())
        return [reading for reading in readings if reading is not None]

    def close(self) -> None:
        """Close every file; harmless when repeated."""
        self.watch({})
        if self._proc >= 0:
            os.close(self._proc)
            self._proc = -1

    def _read_group(self, name: str, group: _Group, now: float) -> DelayReading | None:
        try:
            if group.list_name is None:
                group.list_name = _list_name(group.path)
            listed = _list_threads(group.folder, group.list_name)
        except OSError:
            self._drop(group)
            return None
        interval = now - group.last if group.last is not None else None
        if interval is not None and interval <= 0:
            return None
        group.last = now
        run = wait = slices = 0
        for tid in group.threads.keys() - listed:
            self._forget(group.threads.pop(tid))
        threads, pread = group.threads, os.pread
        for tid in listed:
            known = threads.get(tid)
            if known is not None and known.fd >= 0:
                # The usual case, for every thread in every period: one that slept is told by its text alone.
                try:
                    text = pread(known.fd, 96, 0)
                except OSError:  # it ended
                    text = b""
                if text and text == known.text:
                    continue
                known.text = text
            delta = self._read_thread(group, tid, interval)
            run, wait, slices = run + delta[0], wait + delta[1], slices + delta[2]
        if interval is None:
            return None
        return DelayReading(name, run * _NS, wait * _NS, slices, interval, len(group.threads))

    def _read_thread(self, group: _Group, tid: bytes, interval: float | None) -> tuple[int, int, int]:
        known = group.threads.get(tid)
        if known is not None:
            numbers = _parse(known.text) if known.fd >= 0 else self._numbers(known.fd, tid)
            if numbers is not None and numbers[0] >= known.run and numbers[1] >= known.wait:
                delta = numbers[0] - known.run, numbers[1] - known.wait, numbers[2] - known.slices
                known.run, known.wait, known.slices = numbers
                if known.fd >= 0 or _possible(delta, interval):
                    return delta
                return 0, 0, 0
            self._forget(group.threads.pop(tid))  # it ended, and perhaps another one has its number now
        return self._meet(group, tid, interval)

    def _meet(self, group: _Group, tid: bytes, interval: float | None) -> tuple[int, int, int]:
        """Begin with a thread; what it did so far counts if it was born since the last reading."""
        fd = -1
        with contextlib.suppress(OSError):
            fd = os.open(tid + b"/schedstat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        if fd < 0:
            return 0, 0, 0
        numbers = self._numbers(fd, tid)
        if numbers is None or self._open >= self._max_open:
            os.close(fd)
            fd = -1
        else:
            self._open += 1
        if numbers is None:
            return 0, 0, 0
        group.threads[tid] = _Thread(fd, *numbers)
        return numbers if interval is not None and _possible(numbers, interval) else (0, 0, 0)

    def _numbers(self, fd: int, tid: bytes) -> tuple[int, int, int] | None:
        try:
            if fd >= 0:
                text = os.pread(fd, 96, 0)
            else:
                once = os.open(tid + b"/schedstat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
                try:
                    text = os.read(once, 96)
                finally:
                    os.close(once)
        except OSError:
            return None
        return _parse(text)

    def _drop(self, group: _Group) -> None:
        for thread in group.threads.values():
            self._forget(thread)
        group.threads.clear()
        group.last = None

    def _forget(self, thread: _Thread) -> None:
        if thread.fd >= 0:
            os.close(thread.fd)
            self._open -= 1


def _parse(text: bytes) -> tuple[int, int, int] | None:
    """Read the three numbers; ``None`` if that is not what is there."""
    try:
        run, wait, slices = map(int, text.split())
    except ValueError:
        return None
    return run, wait, slices


def _possible(delta: tuple[int, int, int], interval: float | None) -> bool:
    """Whether one thread can have done this since the last reading."""
    return interval is not None and (delta[0] + delta[1]) * _NS <= interval * _TOLERANCE


def _list_name(path: Path) -> str:
    """Find out which file lists a group's threads: the one of cgroup v2 or of v1."""
    for name in ("cgroup.threads", "tasks"):
        if (path / name).exists():
            return name
    raise FileNotFoundError(f"no control group: {path}")


def _list_threads(folder: str, name: str, depth: int = _MAX_DEPTH) -> set[bytes]:
    """List the threads of a group and of those below it. Plain system calls: every group is listed in every period."""
    threads = set(_read_all(f"{folder}/{name}").split())
    # A directory's link count is two and one for each directory in it: most groups have none, and one call tells.
    if depth and os.stat(folder).st_nlink > 2:  # noqa: PTH116
        with os.scandir(folder) as entries:
            for below in [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]:
                threads |= _list_threads(below, name, depth - 1)
    return threads


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


def _spare_files() -> int:
    """Take at most half of the files that this process may open, and never more than 4096."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else min(4096, soft // 2)
