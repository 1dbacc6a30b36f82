"""When a period begins early: at the onset of interference, and once more when that has lasted for a moment.

The first of the two ends the time in which nobody disturbed, so that it does not thin out what comes after; the second
one sees nothing but the interference, long enough to be believed. Both are periods like any other, with their true
lengths: no law is told that they are early, only that somebody has come, and that for short periods as well.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

from qioi.monitor.onset import Onset, runnable

LOADAVG = Path("/proc/loadavg")
#: Seconds between two looks at the host; one takes up to 150 us of CPU, with waking up for it.
EVERY = 0.2
#: Seconds from a period that begins early to the next one. Shorter periods are as prompt by themselves.
SHORT = 0.3
#: Seconds after an onset for which the laws are told of it: then the load over the last second shows who has come.
SUDDEN = 1.0
#: The loop may have real-time priority, so it pauses for this many times the CPU time that its last period took. So it
#: has a third of one CPU at most, and leaves others the rest, on a host that is too slow for the period asked for.
REST = 2.0


class EarlyLooks:
    """Looks at the host between periods; where it does not say how many threads are runnable, never."""

    def __init__(self, file: Path = LOADAVG) -> None:
        self._onset = Onset(os.cpu_count() or 1)
        self._last = self._found = -math.inf  # look, and onset
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._file = os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def pause(self, period: float) -> float:
        """Give the seconds until the next look; infinite where there is none."""
        return EVERY if self._file is not None and period > SHORT + EVERY else math.inf

    def look(self, now: float) -> str | None:
        """Look at the host at the monotonic time ``now``; say why the period is to begin at once, if it is."""
        if self._file is None:
            return None
        try:
            running = runnable(os.pread(self._file, 256, 0))
        except (OSError, ValueError, IndexError):
            self.close()
            return None
        self._onset, why = self._onset.step(now, running)
        self._last = now
        if why is not None:
            self._found = now
        return why

    def sudden(self) -> bool:
        """Whether an onset was found less than a second before the last look."""
        return self._last - self._found < SUDDEN

    def close(self) -> None:
        """Look no more; harmless when repeated."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


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
