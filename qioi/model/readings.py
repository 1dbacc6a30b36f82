"""Readings of one period: of channels, components and the host."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field


class ChannelReading(Struct, frozen=True):
    """One period's reading of a channel.

    ``throughput`` is in transactions per second, ``None`` before the first window is full.
    ``age`` is the seconds since the channel's last commit was seen, ``None`` if there was none.
    ``committed`` counts the transactions since the daemon began to look, ``None`` where they are not counted.
    ``source`` says who counts: counts of two sources can't be compared. ``interval`` is the seconds between two blocks
    if they come at equal intervals longer than usual (a BatchTimeout of 10 s), else 0.
    """

    channel: str
    throughput: float | None
    age: float | None
    height: int | None = None
    committed: int | None = None
    source: str = "log"
    interval: float = 0.0

    @property
    def silence(self) -> float | None:
        """Seconds for which a commit has been overdue: ``age`` without the channel's own interval between blocks."""
        return None if self.age is None else max(0.0, self.age - self.interval)


class DelayReading(Struct, frozen=True):
    """What the scheduler did to one component since the reading before.

    ``run`` and ``wait`` are seconds that its threads ran and were runnable but waited, summed over
    threads; ``slices`` is how often they were put on a CPU; ``interval`` is the wall time covered.
    ``used`` is the CPU time in seconds by the group's own account, which includes processes that came and went in
    between; ``None`` where the kernel does not account for groups.
    Source: ``/proc/PID/task/TID/schedstat`` (kernel: Documentation/scheduler/sched-stats.rst).
    """

    component: str
    run: float
    wait: float
    slices: int
    interval: float
    threads: int = 0
    used: float | None = None

    @property
    def cores(self) -> float:
        """CPUs that the component used, by the group's account where there is one."""
        if self.interval <= 0:
            return 0.0
        return (self.run if self.used is None else self.used) / self.interval

    @property
    def delay(self) -> float | None:
        """Mean scheduling delay per time slice, in seconds; ``None`` if nothing ran."""
        return self.wait / self.slices if self.slices else None

    @property
    def waiting_share(self) -> float | None:
        """Share of runnable time that was spent waiting, 0..1; ``None`` if nothing was runnable."""
        runnable = self.run + self.wait
        return self.wait / runnable if runnable > 0 else None


class HostLoad(Struct, frozen=True, dict=True):
    """How busy the host is, or some of its CPUs, as shares of all of them, 0..1.

    ``idle`` is what nobody used. ``foreign`` is what was used by control groups that are no component's; interrupts,
    steal time, and groups that run at ``cpu.idle`` are not in it. ``lasting`` is the same over a second at least, where
    the period was shorter: a moment is too short to say that there is room. ``sudden`` says that less than a second ago
    far more threads than usual were found runnable. ``pinned`` is the load of the CPUs that a component may run on, by
    its name, for those components that may not run on all.
    """

    idle: float
    foreign: float
    lasting: HostLoad | None = None
    sudden: bool = False
    pinned: Mapping[str, HostLoad] = field(default_factory=dict)

    def of(self, component: str) -> HostLoad:
        """Give the load of the CPUs that a component may run on."""
        return self.pinned.get(component, self)

    @cached_property  # every component is judged by it, several times a period
    def foreign_part(self) -> float:
        """Part of the busy CPU time that foreigners had, 0..1."""
        busy = 1.0 - self.idle
        return min(1.0, max(0.0, self.foreign / busy)) if busy > 0 else 0.0

    @cached_property
    def waited_part(self) -> float:
        """Part of a component's waiting that foreigners caused, 0..1.

        The kernel counts a wait when it ends. In a period below a second that is often one in which foreigners had
        least: SCHED_FIFO ones leave the CPU for 0.05 s of each second. So what foreigners had over a second counts too.
        """
        return self.foreign_part if self.lasting is None else max(self.foreign_part, self.lasting.foreign_part)


class Foreigner(Struct, frozen=True):
    """A control group that belongs to no component, and the CPUs that it used."""

    group: str
    cores: float


class Stalls(Struct, frozen=True):
    """What keeps processes from running, beside other processes.

    ``io`` is the part of the time in which somebody on the host waited for I/O, 0..1, ``None`` where the kernel does
    not say. ``blocked`` is how many threads of a component were found blocked, ``throttled`` the part of the time for
    which a quota stopped it, its own or one of a group above it, and ``quotas`` which group's; a component that nothing
    hinted at was not looked at, and is missing.
    """

    io: float | None = None
    blocked: Mapping[str, int] = field(default_factory=dict)
    throttled: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, str] = field(default_factory=dict)
