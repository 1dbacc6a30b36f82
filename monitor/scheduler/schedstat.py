"""Scheduling delay per component, from ``/proc/TID/schedstat`` of every thread in its control group.

The file's three numbers are the thread's time on a CPU (ns), its time runnable but waiting for one (ns), and how often
it was put on one (kernel: Documentation/scheduler/sched-stats.rst). They only grow, so a reading is the sum of the
threads' differences since the reading before.

What it costs (this kind of machine): opening, reading and closing a file takes 5 us, reading a kept one 1 us. So
threads' files are kept open, up to a bound; beyond it they are opened each time. A kept file belongs to its thread, not
to the number: reading it after the thread's end fails, so that a reused number is never mistaken for the old thread.
Of the threads whose files are opened each time, those that have slept through some readings are read in turns, as long
as the others explain the CPU time that the group has used.

A group's ``tasks`` (v1) or ``cgroup.threads`` (v2) lists all its threads at once. Where the kernel accounts for the CPU
time of whole groups, one number tells whether anything ran at all, since a thread's numbers move only when it is put on
a CPU; and whether the known threads explain what was used since the listing before, so that the group is listed only
when they don't, or after a while. What a thread did before it was listed counts if it was started after
the previous listing. If that was before this interval, only the interval's part of it counts: all of it at once could
be more than the time that has passed.

Not visible: what a thread did between its last reading and its end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from qioi.kernel.files import spare_files
from qioi.kernel.threads import list_name, list_threads
from qioi.model import DelayReading
from qioi.monitor.scheduler.thread_files import Sums, ThreadFiles, read_once

_NS = 1e-9
#: A thread can't have run and waited for longer than it exists; this much is allowed for the clocks' difference.
_TOLERANCE = 1.1
#: CPU time in ns since the last listing, and its part of all in this interval, that a group may have used without any
#: known thread: no reason to list it again. The two clocks' readings are as far apart in a busy group.
_SPARE = 200_000
_SPARE_PART = 0.02
#: Threads' files kept open, where this process may have twice as many: a thousand components of thirty threads.
_MOST_OPEN = 32_768
#: Readings through which a thread has slept before it is read in turns, and how many readings take one turn.
_ASLEEP, _TURNS = 3, 8
#: Readings after which a group is listed anyway, where its CPU time is known: what moved it was mostly seen.
RELIST = 30
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class _Thread:
    """The last numbers of a thread whose file is opened each time.

    ``born`` is its start in clock ticks since boot, which tells it from another thread that has its number.
    """

    born: int
    text: bytes
    run: int
    wait: int
    slices: int
    slept: int = 0  # readings in a row


class _Group:
    """The threads of one component."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = str(path)
        self.list_name: str | None = None
        self.kept = ThreadFiles()
        self.others: dict[bytes, _Thread] = {}
        self.turn = 0
        self.last: float | None = None
        self.used: int | None = None  # CPU time at the last reading, in ns, where it is accounted for
        self.listed: int | None = None  # when, in clock ticks since boot
        self.unlisted = 0  # readings since then
        self.unexplained = 0  # CPU time since then that the group used and no known thread, in ns


class SchedstatReader:
    """Reads the scheduling delay of components. Open files are bounded by ``max_open``.

    ``used`` gives a component's CPU time in ns, all threads together, or ``None`` where that is not known.
    """

    def __init__(self, max_open: int | None = None, used: Callable[[str], int | None] | None = None) -> None:
        self._max_open = max_open if max_open is not None else spare_files(2, _MOST_OPEN)
        self._used = used
        self._open = 0
        self._groups: dict[str, _Group] = {}
        #: The components that the last reading met, so that what these had done since the one before is not known.
        self.met: set[str] = set()
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
        readings = []
        self.met = set()
        for name, group in self._groups.items():
            reading = self._read_group(name, group, now)
            if reading is not None:
                readings.append(reading)
        return readings

    def close(self) -> None:
        """Close every file; harmless when repeated."""
        self.watch({})
        if self._proc >= 0:
            os.close(self._proc)
            self._proc = -1

    def _read_group(self, name: str, group: _Group, now: float) -> DelayReading | None:
        interval = now - group.last if group.last is not None else None
        if interval is not None and interval <= 0:
            return None
        before, used = group.used, self._used(name) if self._used else None
        group.used = used
        if used is not None and before is not None and used < before:
            before = None  # the group was made anew
        group.unlisted += 1
        quiet = used is not None and used == before
        overdue = used is None or before is None or interval is None or group.unlisted >= RELIST
        run = wait = slices = 0
        if not quiet or overdue:
            run, wait, slices = self._read_threads(group, interval, every=overdue)
        if used is not None and before is not None:
            group.unexplained += used - before - run
            if not overdue and not quiet and not _explained(group.unexplained, used - before):
                more = self._read_others(group, interval, every=True)
                run, wait, slices = run + more[0], wait + more[1], slices + more[2]
                group.unexplained -= more[0]
                overdue = not _explained(group.unexplained, used - before)
        if overdue:
            try:
                new = self._list(group, interval)
            except OSError:
                self._drop(group)
                return None
            run, wait, slices = run + new[0], wait + new[1], slices + new[2]
        group.last = now
        if interval is None:
            self.met.add(name)
            return None
        threads = len(group.kept) + len(group.others)
        its = None if used is None or before is None else (used - before) * _NS
        return DelayReading(name, run * _NS, wait * _NS, slices, interval, threads, its)

    def _read_threads(self, group: _Group, interval: float | None, every: bool) -> Sums:
        """Sum up what the known threads did since they were last read; forget those that have ended.

        With ``every`` no thread is left for a later reading because it sleeps.
        """
        before = len(group.kept)
        run, wait, slices = group.kept.read()
        self._open -= before - len(group.kept)
        if group.others:
            more = self._read_others(group, interval, every)
            run, wait, slices = run + more[0], wait + more[1], slices + more[2]
        return run, wait, slices

    def _read_others(self, group: _Group, interval: float | None, every: bool) -> Sums:
        """Do so for threads whose files are not kept open: one that slept is told by its text alone."""
        run = wait = slices = 0
        ended = []
        group.turn += 1
        for number, (tid, known) in enumerate(group.others.items(), group.turn):
            if known.slept >= _ASLEEP and number % _TURNS and not every:
                continue
            text = self._read_once(tid, b"schedstat")
            if text == known.text:
                known.slept += 1
                continue
            numbers = text.split()
            if len(numbers) != 3:
                ended.append(tid)
                continue
            ran, waited, put = int(numbers[0]), int(numbers[1]), int(numbers[2])
            if not self._is_same(tid, known, ran, waited, interval):
                ended.append(tid)
                continue
            run += ran - known.run
            wait += waited - known.wait
            slices += put - known.slices
            known.text, known.run, known.wait, known.slices, known.slept = text, ran, waited, put, 0
        for tid in ended:
            del group.others[tid]
        return run, wait, slices

    def _is_same(self, tid: bytes, known: _Thread, ran: int, waited: int, interval: float | None) -> bool:
        """Whether a number is still that of the thread it was; its start is asked for only where there is a doubt."""
        if ran < known.run or waited < known.wait:
            return False
        did = (ran - known.run + waited - known.wait) * _NS
        most = _TURNS if known.slept >= _ASLEEP else 1
        return (interval is not None and did <= most * interval * _TOLERANCE) or self._born(tid) == known.born

    def _list(self, group: _Group, interval: float | None) -> Sums:
        """List the group's threads, drop those that have left, and begin with those that came. OSError: it is gone.

        Give what these did in the interval, as far as they were born since the last listing; without an interval
        nothing counts. Of a thread that is older than the interval only the mean is known.
        """
        since = group.listed if interval is not None else None
        instant = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICK)
        if group.list_name is None:
            group.list_name = list_name(group.path)
        listed = list_threads(group.folder, group.list_name)
        # Groups that were added together are listed at different times afterwards.
        first = sum(os.fsencode(group.folder)) % (RELIST // 2)
        group.listed, group.unlisted, group.unexplained = instant, 0 if interval is not None else first, 0
        if gone := group.kept.threads - listed:
            group.kept.forget(gone)
            self._open -= len(gone)
        for tid in group.others.keys() - listed:
            del group.others[tid]
        run = wait = slices = 0
        for tid in listed - group.kept.threads - group.others.keys():
            met = self._meet(tid, group)
            if met is not None and interval is not None and since is not None and met.born >= since:
                part = min(1.0, interval * _TICK / max(1, instant - met.born))
                run += int(part * met.run)
                wait += int(part * met.wait)
                slices += round(part * met.slices)
        return run, wait, slices

    def _meet(self, tid: bytes, group: _Group) -> _Thread | None:
        """Add a thread, and keep its file open within the bound; ``None`` if it has ended meanwhile."""
        try:
            fd = os.open(tid + b"/schedstat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return None
        try:
            text = os.pread(fd, 96, 0)
        except OSError:
            text = b""
        numbers, born = text.split(), self._born(tid)
        there = len(numbers) == 3 and born is not None
        if there and self._open < self._max_open:
            group.kept.add(tid, fd, text)
            self._open += 1
        else:
            os.close(fd)
        if born is None or not there:
            return None
        met = _Thread(born, text, int(numbers[0]), int(numbers[1]), int(numbers[2]))
        if tid not in group.kept.threads:
            group.others[tid] = met
        return met

    def _born(self, tid: bytes) -> int | None:
        """Read when a thread was started, in clock ticks since boot (proc(5), /proc/PID/stat, field 22)."""
        fields = self._read_once(tid, b"stat").rpartition(b")")[2].split()
        return int(fields[19]) if len(fields) > 19 else None

    def _read_once(self, tid: bytes, name: bytes) -> bytes:
        """Read a file of a thread's; nothing if it has ended."""
        try:
            return read_once(tid + b"/" + name, self._proc)
        except OSError:
            return b""

    def _drop(self, group: _Group) -> None:
        self._open -= len(group.kept)
        group.kept.close()
        group.others.clear()
        group.last = group.used = group.listed = None


def _explained(unexplained: int, used: int) -> bool:
    """Whether the known threads account for what the group has used, in ns. They did more if one of them has left."""
    return abs(unexplained) <= max(_SPARE, _SPARE_PART * used)
