"""What a channel waits for: a CPU that others have, or something that no share can give.

A share helps where a component is runnable and others run. It does nothing for one that sleeps until a disk
answers, that has used its quota up, that waits for its own ledger's processes, or that nobody sends to. Measured:
with ledgers on a disk that took 9.6 s for an fsync, shares changed nothing. So time is compared with time: how long
the channel's components wait on the run queue behind foreign work, and how long they are blocked.

Blocked is what is sampled: threads in uninterruptible sleep (proc(5), state D), which for a ledger is its disk.
That counts only while the kernel's own account (PSI, Documentation/accounting/psi.rst) shows that I/O is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.laws.law import Seen
from qioi.controller.laws.need import IDLE, QUIET, foreign_part, is_below, need_of, weight
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
#: Part of the time for which a group's quota stops it, from which on that is it.
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


class Times(Struct, frozen=True):
    """One channel's components together, smoothed: seconds per second, or threads; ``need`` is the worst one's."""

    foreign: float = 0.0
    blocked: float = 0.0
    throttled: float = 0.0
    io: float = 0.0
    need: float = 0.0
    waiting: float = 0.0
    idle: float = 0.0

    def add(self, new: Times, part: float) -> Times:
        """Move towards new times by ``part`` (0..1)."""

        def mix(old: float, now: float) -> float:
            return old + part * (now - old)

        return Times(
            mix(self.foreign, new.foreign),
            mix(self.blocked, new.blocked),
            mix(self.throttled, new.throttled),
            mix(self.io, new.io),
            mix(self.need, new.need),
            mix(self.waiting, new.waiting),
            mix(self.idle, new.idle),
        )


class Diagnosis(Struct, frozen=True):
    """One channel's, with all it remembers: no I/O, no clock."""

    times: Times | None = None
    found: Bottleneck = Bottleneck()

    def step(self, seen: Seen, delays: Mapping[str, DelayReading], stalls: Stalls) -> Diagnosis:
        """Look at one period. ``seen`` has the channel's side and the host's, ``delays`` those of its components."""
        new = measure(delays, stalls, seen.host)
        if new is None:
            return replace(self, found=Bottleneck(Kind.UNKNOWN, "no scheduling of its components is known"))
        interval = max(delay.interval for delay in delays.values())
        times = new if self.times is None else self.times.add(new, weight(interval, SMOOTH))
        return Diagnosis(times, judge(times, seen, before=self.found.kind))


def measure(delays: Mapping[str, DelayReading], stalls: Stalls, host: HostLoad | None) -> Times | None:
    """Sum up one period; ``None`` if none of the components ran or waited at all."""
    threads, waiting = 0.0, -1.0
    worst: DelayReading | None = None
    for delay in delays.values():
        share = delay.waiting_share
        if delay.interval > 0 and share is not None:
            threads += max(0.0, delay.wait) / delay.interval
            if share > waiting:
                worst, waiting = delay, share
    if worst is None:
        return None
    return Times(
        foreign_part(host) * threads,  # as those that are blocked
        float(sum(stalls.blocked.get(name, 0) for name in delays)),
        max((stalls.throttled.get(name, 0.0) for name in delays), default=0.0),
        stalls.io if stalls.io is not None else 1.0,  # not known: the blocked threads alone are asked
        need_of(worst, host),  # the more of its time one waits, the more behind foreigners
        waiting,
        host.idle if host else 1.0,
    )


def is_stalled(seen: Seen) -> bool:
    """Whether a channel that has committed does so no more."""
    return seen.commit_age is not None and seen.commit_age >= STALLED


def suffers(seen: Seen) -> bool:
    """Whether a channel does less than it should: only then can the disk be the bottleneck."""
    return is_stalled(seen) or is_below(seen)


def judge(times: Times, seen: Seen, before: Kind) -> Bottleneck:
    """Name the bottleneck. The disk and the quota go before the CPU: where they rule, a share moves nothing."""
    stalled, suffering = is_stalled(seen), suffers(seen)
    again = before is Kind.DISK
    if (
        suffering
        and times.io >= (PRESSURE / 2 if again else PRESSURE)
        and times.blocked >= max(UNBLOCKED if again else BLOCKED, times.foreign / (2 if again else 1))
    ):
        return Bottleneck(
            Kind.DISK,
            f"the bottleneck is the disk: {times.blocked:.1f} threads blocked, {times.foreign:.1f} waiting for a CPU "
            f"behind foreign work; I/O is waited for {times.io:.0%} of the time",
        )
    if times.throttled >= THROTTLED:
        return Bottleneck(
            Kind.QUOTA, f"the bottleneck is its own CPU quota: stopped by it {times.throttled:.0%} of the time"
        )
    if times.need >= QUIET:
        return Bottleneck(
            Kind.CPU,
            f"the CPU: a component waits {times.need:.0%} of its runnable time behind foreign work",
        )
    if not suffering:
        return Bottleneck(Kind.NONE, "nothing is missing")
    if stalled:
        return Bottleneck(Kind.NONE, f"no commits for {seen.commit_age:.0f} s, and nothing waits: nobody sends")
    if times.waiting >= CROWDED or times.idle < IDLE:
        return Bottleneck(
            Kind.LEDGER,
            f"the bottleneck is the ledger itself: its processes wait {times.waiting:.0%} of their runnable time, but "
            f"behind foreign work {times.need:.0%} at most",
        )
    return Bottleneck(
        Kind.ELSEWHERE,
        "nothing waits for a CPU or a disk: less is sent than is owed, or the bottleneck is the network, "
        "or the ledger's own timers and locks",
    )
