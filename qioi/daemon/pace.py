"""When a period begins early: at the onset of interference, and once more when that has lasted for a moment.

The first of the two ends the time in which nobody disturbed, so that it does not thin out what comes after; the second
one sees nothing but the interference, long enough to be believed. Both are periods like any other, with their true
lengths: no law is told that they are early, only that somebody has come, and that for short periods as well.
"""

from __future__ import annotations

from qioi.monitor.scheduler.onset_watch import SHORT

#: The loop may have real-time priority, so it pauses for this many times the CPU time that its last period took. So it
#: has a third of one CPU at most, and leaves others the rest, on a host that is too slow for the period asked for.
REST = 2.0


class Pace:
    """When periods are due: one after the other, sooner after an onset. No I/O; times are the monotonic clock's."""

    def __init__(self, now: float) -> None:
        self.due = now
        #: Why the period that is due is so early, in one clause for people.
        self.early: str | None = None
        self._short = False

    def hurry(self, now: float, why: str) -> None:
        """Have a period begin at once, and the one after it soon."""
        self.due, self.early, self._short = now, why, True

    def sooner(self, now: float, period: float) -> None:
        """Wait no longer than a period from now, after it was made shorter."""
        self.due = min(self.due, now + period)

    def ended(self, now: float, period: float, used: float) -> int:
        """Set the next period's time, after one has ended that ``used`` so many seconds of CPU.

        Give how many are left out: catching up would only look at the same instant twice, and the loop has to rest.
        """
        length = min(SHORT, period) if self._short else period
        self.early = f"{SHORT:g} s after {self.early}" if self._short else None
        self._short = False
        rested = now + REST * used
        missed = int((rested - self.due) / length) if rested > self.due else 0
        self.due += (missed + 1) * length
        return missed
