"""The onset of interference: suddenly more threads are runnable on the host than usual.

Neighbours that start late in a period run for too small a part of it to count at its end. So the host is also looked
at between periods: how many threads are runnable right now, one number in a small file of the kernel (proc(5),
/proc/loadavg, the fourth field). The number tells that something has started, not whom it disturbs. The period that
then begins early finds that out.

Measured (2 cores, a ledger network at 60 % of its maximum, a look every 0.2 s): 6.6 runnable threads alone, with a
standard deviation of 3.7; beside 16 sysbench 25 to 33, beside 8 of them 17, beside 4 of them 12. Twice what is usual,
twice in a row, found 16 of them 0.33 s after the first one's start at the median and 0.45 s at the latest, 8 of them
after 0.39 and 0.95 s, 16 beside a saturating load after 0.54 and 0.71 s, and was wrong 0.13 times in 10 s; four and
fewer are left to the period. The kernel's pressure (PSI, /proc/pressure/cpu) tells less: the part of
the time in which some thread waits was 0.61 alone and 1.0 beside 16, but sometimes above 0.9 alone too.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

#: Looks in a row that must agree, and how many times what is usual they must show.
AGREE = 2
FACTOR = 2.0
#: The least number of threads above what is usual: where few are usual, a burst of the ledger's own doubles them.
MORE = 5
#: Time constant of the usual number, and how long the host is watched before it is known, in seconds.
USUAL = 5.0
KNOWN = 2.0
#: Seconds after an onset in which there is no other one, which bounds how often a period begins early. Neighbours that
#: start in these seconds are left to the period.
PAUSE = 2.5


class Onset(Struct, frozen=True):
    """The state between two looks, without I/O or a clock. ``usual`` is in runnable threads."""

    cpus: int
    usual: float | None = None
    since: float = math.inf  # when what is usual was begun to be watched
    at: float = -math.inf  # the last look
    agree: int = 0  # looks in a row, the last one among them, that showed more than is usual
    quiet_until: float = -math.inf

    def step(self, now: float, running: int) -> tuple[Onset, str | None]:
        """Process a look at the monotonic time ``now``; if it shows an onset, give the reason in one clause."""
        usual = self.usual
        if usual is None:
            return replace(self, usual=float(running), since=now, at=now), None
        agree = self.agree + 1 if running > max(FACTOR * usual, usual + MORE, self.cpus + 1) else 0
        known = now - self.since >= KNOWN
        if known and agree >= AGREE and now >= self.quiet_until:
            why = f"{running} threads are runnable, usual are {usual:.0f}"
            return Onset(self.cpus, quiet_until=now + PAUSE), why
        # At first it is the mean: a burst in the first look would outlast the time that is watched until it is known.
        part = 1.0 - math.exp(-(now - self.at) / USUAL) if known else (now - self.at) / max(now - self.since, 1e-9)
        return Onset(self.cpus, usual + part * (running - usual), self.since, now, agree, self.quiet_until), None


def runnable(loadavg: bytes) -> int:
    """Read how many threads are runnable, the reader among them, in ``/proc/loadavg``; ValueError: it is not there."""
    return int(loadavg.split()[3].partition(b"/")[0])
