"""The onset of interference: of a sudden more processes are runnable on the host than there used to be.

Neighbours that come late in a period have been there for too small a part of it to be believed at its end. So the host
is looked at between periods too: how many threads are runnable right now, one number in a small file of the kernel
(proc(5), /proc/loadavg, the fourth field). It tells only that something has come, not whom it hurts: that is what the
period then finds out that begins early.

Measured (2 cores, a ledger network at 60 % of its maximum, a look every 0.2 s): 6.6 runnable threads alone, with a
standard deviation of 3.7; beside 16 sysbench 25 to 33, beside 8 of them 17, beside 4 of them 12. Twice what is usual,
twice in a row, found 16 of them 0.33 s after the first one's start at the median and 0.45 s at the latest, 8 of them
after 0.39 and 0.95 s, 16 beside a saturating load after 0.54 and 0.71 s, and was wrong 0.13 times in 10 s; four and
fewer are left to the period. The kernel's pressure (PSI, /proc/pressure/cpu) was looked at as well, and tells less: the
part of the time in which anybody waits was 0.61 alone and 1.0 beside 16, but above 0.9 now and then alone too.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

#: Looks in a row that must agree, and how many times what is usual they must show.
AGREE = 2
FACTOR = 2.0
#: So many threads more there must be at least: where few are usual, a burst of the ledger's own is twice as many.
MORE = 5
#: Time constant in s of what is usual, and how long it is watched before it is known.
USUAL = 5.0
KNOWN = 2.0
#: Seconds after an onset in which there is no other one: so often at most a period begins early. Neighbours that come
#: in them, after an onset that was none, are left to the period.
PAUSE = 2.5


class Onset(Struct, frozen=True):
    """All that is remembered between two looks; no I/O, and no clock. ``usual`` is in runnable threads."""

    cpus: int
    usual: float | None = None
    since: float = math.inf  # when what is usual was begun to be watched
    at: float = -math.inf  # the last look
    agree: int = 0  # looks in a row, the last one among them, that showed more than is usual
    quiet_until: float = -math.inf

    def step(self, now: float, running: int) -> tuple[Onset, str | None]:
        """Take in a look at the monotonic time ``now``; when it shows an onset, say so in one clause for people."""
        usual = self.usual
        if usual is None:
            return replace(self, usual=float(running), since=now, at=now), None
        agree = self.agree + 1 if running > max(FACTOR * usual, usual + MORE, self.cpus + 1) else 0
        known = now - self.since >= KNOWN
        if known and agree >= AGREE and now >= self.quiet_until:
            why = f"{running} threads are runnable, usual are {usual:.0f}"
            return Onset(self.cpus, quiet_until=now + PAUSE), why
        part = 1.0 - math.exp(-(now - self.at) / (USUAL if known else KNOWN))
        return Onset(self.cpus, usual + part * (running - usual), self.since, now, agree, self.quiet_until), None


def runnable(loadavg: bytes) -> int:
    """Read how many threads are runnable, the reader among them, in ``/proc/loadavg``; ValueError: it is not there."""
    return int(loadavg.split()[3].partition(b"/")[0])
