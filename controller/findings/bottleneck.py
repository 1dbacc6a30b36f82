"""What a component or a channel waits for: a CPU that others have, or something that no share can give.

A share helps where a component is runnable and others run. It does nothing for one that sleeps until a disk
answers, that has used its quota up, that waits for its own ledger's processes, or that nobody sends to. Measured:
with ledgers on a disk that took 9.6 s for an fsync, shares changed nothing. So time is compared with time: how long
threads wait on the run queue behind foreign work, and how long they are blocked.

Each component is judged by its own times: a chaincode that its quota stops, or a peer on a slow disk, says nothing of
the others. A channel is judged by the sum of its components' times, for people.

Blocked is what is sampled: threads in uninterruptible sleep (proc(5), state D), which for a ledger is its disk.
That counts only while the kernel's own account (PSI, Documentation/accounting/psi.rst) shows that I/O is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from qioi.controller.laws.law import Seen
from qioi.controller.laws.need import IDLE, QUIET, is_below, need_of, waited_part, weight
from qioi.model import DelayReading, HostLoad, Stalls

#: Time constant of the filters in s.
SMOOTH = 3.0
#: A channel that has not committed for so many seconds suffers.
STALLED = 3.0
#: Mean number of blocked threads from which on the disk may be it, and below which it is not any more.
BLOCKED = 0.5
UNBLOCKED = 0.25
#: Share of the time in which anybody on the host waits for I/O (PSI "some"), from which on a disk is slow.
PRESSURE = 0.1
#: Part of the time for which a quota stops a component, from which on that is it; it is until half of that.
THROTTLED = 0.2
#: Share of runnable time spent waiting, behind whomever, from which on a ledger fills the CPUs itself.
CROWDED = 0.2


class Kind(StrEnum):
    """What is the bottleneck."""

    NONE = "none"  # nothing is missing
    UNKNOWN = "unknown"
    CPU = "cpu"  # foreign work is waited for: shares help
    DISK = "disk"
    QUOTA = "quota"
    LEDGER = "ledger"
    ELSEWHERE = "elsewhere"


#: What no share helps against although somebody may wait on the run queue too.
HOPELESS = frozenset({Kind.DISK, Kind.QUOTA})


class Bottleneck(Struct, frozen=True):
    """The verdict, and what it rests on in one clause for people."""

    kind: Kind = Kind.UNKNOWN
    text: str = "nothing is known yet"


class Machine(Struct, frozen=True):
    """The host's side, smoothed: part of the time in which I/O is waited for, and of the CPU time that is idle."""

    io: float = 0.0
    idle: float = 1.0

    @classmethod
    def read(cls, stalls: Stalls, host: HostLoad | None) -> Machine:
        """Take it from one period. Where the kernel does not tell of I/O, the blocked threads alone are asked."""
        return cls(1.0 if stalls.io is None else stalls.io, host.idle if host else 1.0)

    def add(self, new: Machine, part: float) -> Machine:
        """Move towards a new reading by ``part`` (0..1)."""
        return Machine(mix(self.io, new.io, part), mix(self.idle, new.idle, part))


class Times(Struct, frozen=True):
    """One component's, smoothed.

    ``foreign`` is how many threads wait behind foreign work, ``blocked`` how many for I/O. ``throttled`` is the part of
    the time for which a quota stops it. ``need`` and ``waiting`` are parts of its runnable time: the first behind
    foreign work, the second behind anybody.
    """

    foreign: float = 0.0
    blocked: float = 0.0
    throttled: float = 0.0
    need: float = 0.0
    waiting: float = 0.0

    @classmethod
    def read(cls, delay: DelayReading, stalls: Stalls, host: HostLoad | None) -> Times:
        """Take them from one period; ``host`` is the load of the CPUs that the component may run on."""
        name, share = delay.component, delay.waiting_share
        blocked, throttled = float(stalls.blocked.get(name, 0)), stalls.throttled.get(name, 0.0)
        if delay.interval <= 0 or share is None:
            return cls(0.0, blocked, throttled)
        foreign = waited_part(host) * max(0.0, delay.wait) / delay.interval
        return cls(foreign, blocked, throttled, need_of(delay, host), share)

    def add(self, new: Times, part: float) -> Times:
        """Move towards new times by ``part`` (0..1)."""
        return Times(
            mix(self.foreign, new.foreign, part),
            mix(self.blocked, new.blocked, part),
            mix(self.throttled, new.throttled, part),
            mix(self.need, new.need, part),
            mix(self.waiting, new.waiting, part),
        )


def mix(old: float, new: float, part: float) -> float:
    """Move from one number towards another by ``part`` (0..1)."""
    return old + part * (new - old)


def together(times: Iterable[Times]) -> Times:
    """Sum up a channel's components; of the parts of time, those of the component that has most count."""
    each = tuple(times)
    worst = max(each, key=lambda one: one.waiting)  # the more of its time one waits, the more behind foreigners
    return Times(
        sum(one.foreign for one in each),
        sum(one.blocked for one in each),
        max(one.throttled for one in each),
        worst.need,
        worst.waiting,
    )


class Diagnosis(Struct, frozen=True):
    """One component's, with all it remembers: no I/O, no clock."""

    times: Times | None = None
    kind: Kind = Kind.UNKNOWN

    def step(self, new: Times, interval: float, machine: Machine, suffering: bool) -> Diagnosis:
        """Look at one period of so many seconds. ``suffering``: a channel that it serves does less than it should."""
        times = new if self.times is None else self.times.add(new, weight(interval, SMOOTH))
        return Diagnosis(times, judge(times, machine, suffering, self.kind))


def is_stalled(seen: Seen) -> bool:
    """Whether a channel that has committed does so no more."""
    return seen.commit_age is not None and seen.commit_age >= STALLED


def suffers(seen: Seen) -> bool:
    """Whether a channel does less than it should: only then can the disk be the bottleneck."""
    return is_stalled(seen) or is_below(seen)


def judge(times: Times, machine: Machine, suffering: bool, before: Kind) -> Kind:
    """Name the bottleneck. The disk and the quota go before the CPU: where they rule, a share moves nothing."""
    again = before is Kind.DISK
    if (
        suffering
        and machine.io >= (PRESSURE / 2 if again else PRESSURE)
        and times.blocked >= max(UNBLOCKED if again else BLOCKED, times.foreign / (2 if again else 1))
    ):
        return Kind.DISK
    if times.throttled >= (THROTTLED / 2 if before is Kind.QUOTA else THROTTLED):
        return Kind.QUOTA
    if times.need >= QUIET:
        return Kind.CPU
    if not suffering:
        return Kind.NONE
    return Kind.LEDGER if times.waiting >= CROWDED or machine.idle < IDLE else Kind.ELSEWHERE


def said(kind: Kind, times: Times, machine: Machine) -> str:
    """Say what a verdict rests on."""
    match kind:
        case Kind.DISK:
            return (
                f"the bottleneck is the disk: {times.blocked:.1f} threads blocked, {times.foreign:.1f} waiting for a "
                f"CPU behind foreign work; I/O is waited for {machine.io:.0%} of the time"
            )
        case Kind.QUOTA:
            return f"the bottleneck is a CPU quota: stopped by it {times.throttled:.0%} of the time"
        case Kind.CPU:
            return f"the CPU: a component waits {times.need:.0%} of its runnable time behind foreign work"
        case Kind.LEDGER:
            return (
                f"the bottleneck is the ledger itself: its processes wait {times.waiting:.0%} of their runnable time, "
                f"but behind foreign work {times.need:.0%} at most"
            )
        case Kind.ELSEWHERE:
            return (
                "nothing waits for a CPU or a disk: less is sent than is owed, or the bottleneck is the network, "
                "or the ledger's own timers and locks"
            )
        case _:
            return "nothing is missing"
