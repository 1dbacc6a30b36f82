"""Decide when periods are due: one begins early at the onset of interference, and the next one soon after it.

The first early period ends the undisturbed time, which would otherwise dilute the next reading. The second one contains
only interference, and is long enough for a reliable reading. Both are ordinary periods with their true lengths: laws
are not told that a period is early. They are told of an onset, in short periods as well.
"""

from __future__ import annotations

from qioi.monitor.scheduler.onset_watch import SHORT

#: The loop pauses for this many times the CPU time of its last period, because it may have real-time priority. So it
#: takes at most a third of one CPU, even on a host that is too slow for the configured period.
REST = 2.0


class Pace:
    """The time at which the next period is due. It has no I/O; times are the monotonic clock's, in seconds."""

    def __init__(self, now: float) -> None:
        self.due = now
        #: Why the due period is early, in one clause for people; ``None`` for a regular one.
        self.early: str | None = None
        self._why: str | None = None

    def hurry(self, now: float, why: str) -> None:
        """Make a period due at once, unless it is due already, and the next one soon after it."""
        if now < self.due:
            self.due, self.early = now, why
        self._why = why

    def sooner(self, now: float, period: float) -> None:
        """Make the next period due within one ``period`` from now, after a reload shortened it."""
        self.due = min(self.due, now + period)

    def ended(self, now: float, period: float, used: float) -> int:
        """Set when the next period is due, after one that ``used`` so many seconds of CPU; give how many are skipped.

        Missed periods are skipped, because catching up would only read the same instant twice, and the loop must pause.
        """
        length = min(SHORT, period) if self._why else period
        self.early = f"{SHORT:g} s after {self._why}" if self._why else None
        self._why = None
        rested = now + REST * used
        missed = int((rested - self.due) / length) if rested > self.due else 0
        self.due += (missed + 1) * length
        return missed
