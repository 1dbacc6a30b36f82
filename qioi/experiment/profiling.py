"""perf sched over the end of a cell's window: it gives each slice and delay, where /proc's counters only give sums."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from qioi.monitor.profile.perf import LateError, ProfileError, record
from qioi.monitor.profile.scheduling import Recording, row
from qioi.processes.errors import BusyError, LabError

#: Bound of a recording in MB; a busy lab writes some 5 MB a second.
MEGABYTES = 400
#: Seconds that perf is started ahead of what it is to record: where CPU is short it takes that long to begin.
LEAD = 1.0
#: The least part of what perf is to record that stands for it.
LEAST = 0.5
LATE = "perf had no time to begin before the load ended: the machine is too busy"


class Profiler:
    """Records ``seconds`` at the end of the window on a thread of its own; with 0 it does nothing.

    Where perf begins late the recording is shorter, and no part of it is of what comes after the window.
    """

    def __init__(self, groups: Mapping[str, list[Path]], seconds: float) -> None:
        self._groups, self._seconds = groups, seconds
        self._thread: threading.Thread | None = None
        self._recording: Recording | None = None
        self._full = False
        self._error: LabError | None = None

    def tick(self, at: float, duration: float) -> None:
        """Begin at the right time; ``at`` is in seconds since the window began."""
        if self._seconds and self._thread is None and at >= max(0.0, duration - self._seconds - LEAD):
            until = time.monotonic() + duration - at
            self._thread = threading.Thread(target=self._record, args=(until,), name="profiler")
            self._thread.start()

    def _record(self, until: float) -> None:
        try:
            self._recording, self._full = record(self._groups, self._seconds, MEGABYTES, until)
        except LateError:
            self._error = BusyError(LATE)
        except ProfileError as error:
            self._error = LabError(str(error))

    def rows(self) -> dict[str, tuple[float, float, float]]:
        """Give slice (s), delay (s) and switches/s by component, once left; empty if nothing was to be recorded."""
        if self._error is not None:
            raise self._error
        if self._recording is None:
            if self._seconds:
                raise BusyError(LATE)
            return {}
        if not self._full and self._recording.seconds < LEAST * self._seconds:
            recorded = f"{self._recording.seconds:.1f} of {self._seconds:g} s"
            raise BusyError(f"perf recorded {recorded} before the load ended: the machine is too busy")
        rows = {
            name: row(name, "", account, self._recording.seconds)
            for name, account in self._recording.accounts.items()
            if name is not None
        }
        return {name: (one.slice or 0.0, one.delay or 0.0, one.switches_per_second) for name, one in rows.items()}

    def lacks(self) -> dict[str, float]:
        """Give as metrics, in %, what is not in the recording: events that perf lost, and time after it was full."""
        if self._recording is None:
            return {}
        events, lost = self._recording.events, self._recording.lost
        missed = 1 - self._recording.seconds / self._seconds if self._full else 0.0
        return {"perf.lost": 100 * lost / max(1, events + lost), "perf.missed": 100 * max(0.0, missed)}

    def __enter__(self) -> Profiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None and self._thread.ident is not None:  # it had begun before an interruption
            self._thread.join()
