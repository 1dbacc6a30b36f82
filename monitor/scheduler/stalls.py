"""What keeps components from running besides other processes: I/O (PSI, blocked threads) and quotas.

A healthy host costs one small file: threads are sampled only while some process waits for I/O and a channel suffers,
and quotas are read only of components that wait and have one. One thread takes about 10 us, so that of very many the
components take turns.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from math import inf
from pathlib import Path

from qioi.kernel.files import KernelFiles
from qioi.kernel.threads import threads_of
from qioi.model import Component, DelayReading, Stalls
from qioi.model.groups import chain, parent_of
from qioi.monitor.scheduler.thread_files import read_once

PRESSURE = Path("/proc/pressure/io")
PROC = Path("/proc")
#: PSI (some) from which on threads are looked at, 0..1.
HINT = 0.02
#: Share of runnable time spent waiting from which on a quota may be the reason.
WAITS = 0.08
#: Threads after which no further component is sampled in a period: 1 ms of work.
SAMPLED = 100
THROTTLED = re.compile(rb"^throttled_(time|usec) (\d+)$", re.MULTILINE)
#: The line in a group's cpu.stat that says that no quota was ever in force, and the seconds until it is read again.
NO_QUOTA = b"nr_periods 0\n"
ASK_AGAIN = 10.0


class StallWatch:
    """Reads all of it, once a period."""

    def __init__(
        self,
        mount: Path,
        pressure: Path = PRESSURE,
        proc: Path = PROC,
        files: KernelFiles | None = None,
        cpus: int | None = None,
    ) -> None:
        self._mount = mount
        self._stated, self._cpus = cpus, cpus or 1
        self._files = files or KernelFiles()
        self._pressure = pressure
        self._proc = proc
        self._at: float | None = None
        self._io: float | None = None
        self._quotas: dict[str, tuple[float, float]] = {}
        self._without: dict[str, float] = {}  # when a group was last found to have no quota
        # The longest ago sampled first; None: not since threads were last left alone for a period.
        self._blocked: dict[str, int | None] = {}

    def read(
        self, now: float, components: Iterable[Component], delays: Mapping[str, DelayReading], suffering: bool = True
    ) -> Stalls:
        """Say what was found since the last call; ``now`` is the monotonic time.

        ``suffering``: some channel does less than it should. Threads are sampled only then.
        """
        components = tuple(components)
        self._cpus = self._stated or os.cpu_count() or 1  # they may come and go
        io = self._read_io(now)
        blocked: dict[str, int] = {}
        if suffering and (io is None or io >= HINT):
            blocked = self._sample(components)
        else:  # the counts are outdated, the turns go on
            self._blocked = dict.fromkeys(self._blocked)
        throttled, quotas = self._read_quotas(now, components, delays)
        return Stalls(io, blocked, throttled, quotas)

    def _read_quotas(
        self, now: float, components: Collection[Component], delays: Mapping[str, DelayReading]
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Say of each component that waits which quota stopped it the most, its own or one above it, and for how long.

        A group's quota stops all that is in it. The kernel adds up over CPUs how long it has (kernel/sched/fair.c),
        before Linux 6.6 also on CPUs on which nothing of the group wanted to run. So that sum is divided by the CPUs on
        which the group wanted to run: as many as it had runnable threads on average, and at most all. A component was
        stopped for no longer than it waited, since that is a part of its waiting. ``nr_throttled`` counts the quota's
        periods in which it stopped at all, which does not tell for how long.
        """
        waiting = [
            (one, delay)
            for one in components
            if (delay := delays.get(one.name)) is not None
            and delay.wait
            and delay.wait >= WAITS * (delay.run + delay.wait)
        ]
        totals: dict[str, tuple[float, float]] = {}
        stopped: dict[str, float] = {}  # on how many CPUs; of those groups alone in which a component waits
        own = dict.fromkeys(one.cgroup for one, _ in waiting)
        parents = dict.fromkeys(map(parent_of, own))  # few: most components have theirs in common
        for group in own | dict.fromkeys(group for parent in parents if parent for group in chain(parent)):
            if (on := self._stopped(group, now, totals)) is not None:
                stopped[group] = on
        self._quotas = totals
        self._without = {group: at for group, at in self._without.items() if now - at < ASK_AGAIN}
        if not stopped:  # as on nearly all hosts: what follows looks at each group of each component
            return {}, {}
        wanted = runnable_in(stopped, components, delays)
        throttled: dict[str, float] = {}
        quotas: dict[str, str] = {}
        for one, delay in waiting:
            parts = {group: stopped[group] / self._on(wanted[group]) for group in chain(one.cgroup) if group in stopped}
            if parts:
                quotas[one.name] = most = max(parts, key=parts.__getitem__)
                waited = part(delay.wait, delay.interval * self._on(runnable(delay)))
                throttled[one.name] = min(parts[most], waited)
        return throttled, quotas

    def _on(self, threads: float) -> float:
        """Give on how many CPUs so many runnable threads want to run, at least 1."""
        return max(1.0, min(threads, self._cpus))

    def _stopped(self, group: str, now: float, totals: dict[str, tuple[float, float]]) -> float | None:
        """Give on how many CPUs a group's quota stopped it on average since the last look; ``None`` without one."""
        if now - self._without.get(group, -inf) < ASK_AGAIN:
            return None
        stopped = self._read_quota(group, now)
        if stopped is None:
            return None
        at, before = self._quotas.get(group, (now, stopped))
        totals[group] = now, stopped
        return max(0.0, stopped - before) / (now - at) if now > at else 0.0

    def _sample(self, components: Iterable[Component]) -> dict[str, int]:
        """Count the blocked threads of the components whose turn it is; the others keep their last counts."""
        groups = {one.name: one.cgroup for one in components}
        before = {name: count for name, count in self._blocked.items() if name in groups}
        sampled: dict[str, int | None] = {}
        looked_at = 0
        for name in (*(groups.keys() - before.keys()), *before):
            if looked_at >= SAMPLED:
                break
            tids = threads_of(self._mount / groups[name])
            sampled[name] = blocked_of(tids, self._proc)
            looked_at += len(tids)
        self._blocked = {name: count for name, count in before.items() if name not in sampled} | sampled
        return {name: count for name, count in self._blocked.items() if count is not None}

    def _read_io(self, now: float) -> float | None:
        """Give PSI's "some" since the last call, from the running total, whose averages would lag."""
        try:
            line = self._files.read(str(self._pressure)).splitlines()[0]
            total = float(line.rsplit(b"total=", 1)[1]) * 1e-6
        except (OSError, IndexError, ValueError):
            self._at = None
            return None
        before, self._io = self._io, total
        at, self._at = self._at, now
        return 0.0 if at is None or before is None else part(total - before, now - at)

    def _read_quota(self, group: str, now: float) -> float | None:
        """Give for how long, in seconds, the quota has stopped a group so far; ``None`` where it has none."""
        try:
            stat = self._files.read(f"{self._mount}/{group}/cpu.stat")
        except OSError:
            return None
        if NO_QUOTA in stat:
            self._without[group] = now
            return None
        return throttled_seconds(stat)


def part(seconds: float, interval: float) -> float:
    """Give the part of an interval that these seconds are, 0..1; 0 where no time has passed."""
    return min(1.0, max(0.0, seconds / interval)) if interval > 0 else 0.0


def runnable(delay: DelayReading) -> float:
    """Give how many threads of a component were runnable on average; 0 where no time has passed."""
    return (delay.run + delay.wait) / delay.interval if delay.interval > 0 else 0.0


def runnable_in(
    groups: Iterable[str], components: Iterable[Component], delays: Mapping[str, DelayReading]
) -> dict[str, float]:
    """Give how many threads of the components in each of these groups were runnable on average."""
    threads = dict.fromkeys(groups, 0.0)
    for one in components:
        if (delay := delays.get(one.name)) is not None:
            for group in threads.keys() & chain(one.cgroup):
                threads[group] += runnable(delay)
    return threads


def throttled_seconds(stat: bytes) -> float | None:
    """Read in a group's ``cpu.stat`` for how long its quota stopped it, summed over CPUs; ``None`` if it is not there.

    Source: kernel Documentation/scheduler/sched-bwc.rst (v1: throttled_time in ns; v2: throttled_usec).
    """
    found = THROTTLED.search(stat)
    return None if found is None else int(found[2]) * (1e-9 if found[1] == b"time" else 1e-6)


def blocked_of(tids: Iterable[bytes], proc: Path) -> int:
    """Count those threads that are in uninterruptible sleep right now."""
    folder = os.fsencode(proc)
    return sum(state(b"%s/%s/stat" % (folder, tid)) == b"D" for tid in tids)


def state(stat: bytes) -> bytes:
    """Read a thread's state (proc(5), /proc/PID/stat, field 3); its name before it may hold anything."""
    with contextlib.suppress(OSError, IndexError):
        return read_once(stat).rpartition(b")")[2].split()[0]
    return b""
