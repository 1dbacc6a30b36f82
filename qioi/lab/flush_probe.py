"""How long the ledgers' file system takes to flush a small write, sampled while an arm runs.

CPU shares cannot help a ledger that waits for its disk. A virtual disk may become slower because the CPUs are busy: it
is a process of the host, which may share its CPU time with ours. So a report about CPU shows the disk's times too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

#: Seconds between two flushes, and bytes of each: rare and small enough not to disturb the ledger.
PERIOD = 0.1
SIZE = 4096


@dataclass(frozen=True, slots=True)
class Flush:
    """One flush: when it began (epoch seconds) and how long it took (milliseconds)."""

    time: float
    took: float


@dataclass(frozen=True, slots=True)
class FlushFigures:
    """Times of the flushes within the window, in milliseconds; where there was none they mean nothing."""

    count: int
    p50: float
    p95: float
    maximum: float


class FlushProbe:
    """Appends to a file of its own in ``directory`` and flushes it, on a thread, until left."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / ".flush-probe"
        self._end = threading.Event()
        # Nobody may be left to end it where a signal interrupts its start: it must not keep the process.
        self._thread = threading.Thread(target=self._run, name="flush-probe", daemon=True)
        self.flushes: list[Flush] = []

    def _run(self) -> None:
        block = os.urandom(SIZE)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            while not self._end.wait(PERIOD):
                os.write(descriptor, block)
                at, began = time.time(), time.perf_counter()
                os.fdatasync(descriptor)
                self.flushes.append(Flush(at, 1000 * (time.perf_counter() - began)))
        finally:
            os.close(descriptor)
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> FlushProbe:
        try:
            self._thread.start()
        except BaseException:  # a signal, while its start is waited for
            self._end.set()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()


def flush_figures(flushes: Sequence[Flush], start: float, end: float) -> FlushFigures:
    """Sum up those that were under way within [start, end]: one that hangs may have begun before."""
    took = sorted(one.took for one in flushes if one.time <= end and one.time + one.took / 1000 >= start)
    if not took:
        return FlushFigures(0, 0.0, 0.0, 0.0)
    # Of n times the nearest rank is ceil(percent / 100 * n), which counts from one.
    p50, p95 = (took[(percent * len(took) - 1) // 100] for percent in (50, 95))
    return FlushFigures(len(took), p50, p95, took[-1])


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Name the type of the file system that holds ``path``, as mount(8) spells it."""
    best, kind = "", "unknown"
    for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        _, target, its, *_ = line.split()
        target = target.replace("\\040", " ")
        if path.is_relative_to(target) and len(target) >= len(best):
            best, kind = target, its
    return kind
