"""Looks at the host between periods, for the onset of interference."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

from qioi.monitor.scheduler.onset import Onset, runnable

LOADAVG = Path("/proc/loadavg")
#: Seconds between two looks at the host; one takes up to 150 us of CPU, with waking up for it.
EVERY = 0.2
#: Length in seconds of the period after an onset. Periods that are configured shorter are prompt by themselves.
SHORT = 0.3
#: Seconds after an onset for which the laws are told of it. After that the load over the last second shows it.
SUDDEN = 1.0


class OnsetWatch:
    """Looks at the host between periods; never on a host that does not count its runnable threads."""

    def __init__(self, file: Path = LOADAVG) -> None:
        self._onset = Onset(os.cpu_count() or 1)
        self._last = self._found = -math.inf  # look, and onset
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._file = os.open(file, os.O_RDONLY | os.O_CLOEXEC)

    def pause(self, now: float, period: float) -> float:
        """Give the seconds from ``now`` until the next look; infinite where there is none.

        Looks have a clock of their own: a period that comes between two of them does not put the next one off.
        """
        if self._file is None or period <= SHORT + EVERY:
            return math.inf
        return min(EVERY, max(0.0, self._last + EVERY - now))

    def look(self, now: float) -> str | None:
        """Look at the host at the monotonic time ``now``; give the reason, if any, to begin a period at once."""
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
        """Stop looking; harmless when repeated."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
