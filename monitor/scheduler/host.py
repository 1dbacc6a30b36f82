"""How busy the host is, and the CPUs that pinned components may run on; and how much of that is foreign work.

Foreign is what processes used (the columns user, nice and system of /proc/stat) without what the components' groups and
groups at ``cpu.idle`` used by their own accounts. Interrupts and steal time are neither idle nor foreign: no share
changes them. A nice value does not tell what leaves room: it counts among the threads of one group only, so that a
neighbour at nice 19 in a group of its own takes as much as any other (measured: half a core beside one busy thread).
"""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from qioi.kernel.files import KernelFiles
from qioi.model import Component, DelayReading, HostLoad
from qioi.monitor.scheduler.pinned import PinnedComponents

log = logging.getLogger("qioi")

STAT = Path("/proc/stat")
#: Bytes asked for in it: the lines of some 800 CPUs.
ROOM = 65_536
#: Seconds from which on a reading is of more than a moment; just below the usual period, which is never met exactly.
LASTING = 0.9
#: Different sets of CPUs that components are pinned to, of which the load is told apart; of more the host's own counts.
MOST_SETS = 64

_TICK = os.sysconf("SC_CLK_TCK")
Cpus = frozenset[int]


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Totals over some CPUs since boot, in clock ticks. Source: proc(5), /proc/stat.

    ``used`` is what processes used: neither idle, nor interrupts, nor stolen.
    """

    total: int
    idle: int
    used: int
    cpus: int


def parse_cpu_times(text: bytes) -> CpuTimes:
    """Read the first line, and count the CPUs. Time that waits for I/O is idle: no process used the CPU."""
    return _times(text[: text.index(b"\n")], text.count(b"\ncpu"))


def parse_each_cpu(text: bytes) -> dict[int, CpuTimes]:
    """Read the line of every CPU that is online."""
    lines = (line for line in text.split(b"\n")[1:] if line.startswith(b"cpu"))
    return {int(line[3 : line.index(b" ")]): _times(line, 1) for line in lines}


def _times(line: bytes, cpus: int) -> CpuTimes:
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, line.split()[1:9])
    used = user + nice + system
    return CpuTimes(used + idle + iowait + irq + softirq + steal, idle + iowait, used, cpus)


def together(times: Iterable[CpuTimes]) -> CpuTimes:
    """Add up the times of several CPUs."""
    each = tuple(times)
    return CpuTimes(sum(t.total for t in each), sum(t.idle for t in each), sum(t.used for t in each), len(each))


class Loads:
    """The load of the same CPUs, look by look."""

    def __init__(self, first: CpuTimes) -> None:
        #: The looks of the last second and the one before them, each with the ticks that ours had used until it.
        self._looks = deque([(first, 0.0)])
        self._foreign: float | None = None  # of the look before, where that is known

    def step(self, now: CpuTimes, cores: float, met: bool) -> HostLoad | None:
        """Compare with the look before, and with one a second ago; ``None`` if the clock has not ticked since.

        ``cores`` is how many of the CPUs components and idle groups used since the look before. Where a component was
        ``met`` just now, it is not known what it used. So nobody is taken to be foreign who was not before,
        but for one look alone: somebody may be met time and again, and neighbours are not to be hidden by that.
        """
        before, used = self._looks[-1]
        ticks = now.total - before.total
        if ticks <= 0 or now.cpus != before.cpus:
            if ticks:  # CPUs that go offline may take hours of idle time with them
                self._looks = deque([(now, 0.0)])
            return None
        ours = ticks * cores / now.cpus
        if met and self._foreign is not None:
            ours = max(ours, now.used - before.used - self._foreign * ticks)
        look = (now, used + ours)
        load = between((before, used), look)
        self._foreign = None if met else load.foreign
        self._looks.append(look)
        long_ago = now.total - LASTING * now.cpus * _TICK
        while self._looks[1][0].total <= long_ago:
            self._looks.popleft()
        return load if self._looks[0][0] is before else replace(load, lasting=between(self._looks[0], look))


def between(before: tuple[CpuTimes, float], now: tuple[CpuTimes, float]) -> HostLoad:
    """Give the load between two looks."""
    ticks = now[0].total - before[0].total
    idle = min(1.0, max(0.0, (now[0].idle - before[0].idle) / ticks))
    foreign = (now[0].used - before[0].used - (now[1] - before[1])) / ticks
    return HostLoad(idle, min(1.0 - idle, max(0.0, foreign)))


class HostWatch:
    """Says how busy the host was since the look before, and how much of that was foreign work.

    ``sudden`` says whether an onset was found a moment ago, ``idle_seconds`` how much CPU time groups at ``cpu.idle``
    have used so far, ``pinned`` which components may not run on all CPUs.
    """

    def __init__(
        self,
        path: Path = STAT,
        files: KernelFiles | None = None,
        sudden: Callable[[], bool] | None = None,
        idle_seconds: Callable[[], float] | None = None,
        pinned: PinnedComponents | None = None,
    ) -> None:
        self._path = str(path)
        self._files = files or KernelFiles()
        self._sudden = sudden
        self._idle_seconds = idle_seconds
        self._idle_before = idle_seconds() if idle_seconds else 0.0
        self._pinned = pinned
        text = self._files.read(self._path, ROOM)
        self._before = parse_cpu_times(text)
        self._host = Loads(self._before)
        self._sets: dict[Cpus, Loads] = {}
        self._fails = False
        #: The CPUs that pinned components may run on, by name; those too whose load is not known.
        self.cpus: Mapping[str, Cpus] = {}

    def watch(self, components: Iterable[Component]) -> None:
        """Watch these components from now on."""
        if self._pinned is not None:
            self._pinned.watch(components)

    def read(self, delays: Iterable[DelayReading], *, met: bool = False) -> HostLoad | None:
        """Compare with the look before, and with one a second ago.

        ``None`` if the clock has not ticked since, or the kernel can't tell. ``delays`` are those of all components,
        but for components inside others' groups, and but for one that was ``met`` just now.
        """
        delays = tuple(delays)
        text = self._look()
        if text is None:
            return None
        now, before = parse_cpu_times(text), self._before
        self._before = now
        seconds = (now.total - before.total) / (_TICK * now.cpus)
        idle_groups = self._idle_cores(seconds)
        pinned = self.cpus = dict(self._pinned.look(time.monotonic())) if self._pinned is not None else {}
        cores: defaultdict[Cpus, float] = defaultdict(float)
        everywhere = idle_groups
        for delay in delays:
            cpus = pinned.get(delay.component) if pinned else None
            if cpus is None:
                everywhere += delay.cores
            else:
                cores[cpus] += delay.cores
        load = self._host.step(now, everywhere + sum(cores.values()), met)
        beside = self._look_at(text, pinned, cores, everywhere / now.cpus, met)
        if load is None:
            return None
        if self._sudden is not None and self._sudden():
            beside = {name: replace(one, sudden=True) for name, one in beside.items()}
            return replace(load, sudden=True, pinned=beside)
        return replace(load, pinned=beside) if beside else load

    def _look(self) -> bytes | None:
        """Read the file; ``None`` if the kernel can't tell now: it has no memory for the text of many CPUs."""
        try:
            text = self._files.read(self._path, ROOM)
        except OSError as error:
            if not self._fails:
                log.warning("%s: %s: how busy the host is is not known", self._path, error.strerror)
            self._fails = True
            return None
        self._fails = False
        return text

    def _idle_cores(self, seconds: float) -> float:
        """Give how many CPUs groups at ``cpu.idle`` used since the look before."""
        if self._idle_seconds is None:
            return 0.0
        before, self._idle_before = self._idle_before, self._idle_seconds()
        return max(0.0, self._idle_before - before) / seconds if seconds > 0 else 0.0

    def _look_at(
        self, text: bytes, pinned: Mapping[str, Cpus], cores: Mapping[Cpus, float], everywhere: float, met: bool
    ) -> dict[str, HostLoad]:
        """Give the load of the CPUs that pinned components may run on; ``everywhere`` is what ours use of each CPU.

        What a component uses is taken to be spread evenly over the CPUs that it may run on.
        """
        wanted = dict.fromkeys(pinned.values())
        if not wanted:
            self._sets = {}
            return {}
        each = parse_each_cpu(text)
        loads: dict[Cpus, HostLoad] = {}
        sets: dict[Cpus, Loads] = {}
        for cpus in list(wanted)[:MOST_SETS]:
            online = cpus & each.keys()
            if not online:
                continue
            now = together(each[cpu] for cpu in online)
            known = self._sets.get(cpus)
            sets[cpus] = known or Loads(now)
            ours = sum(used * len(cpus & other) / len(other) for other, used in cores.items())
            load = known.step(now, ours + everywhere * len(online), met) if known else None
            if load is not None:
                loads[cpus] = load
        self._sets = sets
        return {name: loads[cpus] for name, cpus in pinned.items() if cpus in loads}
