"""When the daemon's periods run: each at its deadline on the monotonic clock, between signals."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from qioi.daemon import Daemon
from qioi.notify import Notifier
from qioi.snapshot import Snapshot

#: A period that begins later than this part of itself is counted as late.
LATE = 0.2


class Signals:
    """Signals as something to wait for: a pipe that the handler writes to.

    SIGTERM and SIGINT stop, SIGHUP reloads; but SIGHUP from a terminal that was closed stops.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.stopped = False
        self._reload = False
        self._by_hand = os.isatty(2)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        if number == signal.SIGHUP and not self._by_hand:
            self._reload = True
        else:
            self.stopped = True
        with contextlib.suppress(BlockingIOError):  # full: the waiter wakes up anyway
            os.write(self._write, b".")

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; say whether a signal came."""
        if select.select([self._read], [], [], max(0.0, seconds))[0]:
            os.read(self._read, 4096)
        return self.stopped or self._reload

    def take_reload(self) -> bool:
        """Say whether a reload was asked for since the last call."""
        asked, self._reload = self._reload, False
        return asked


def run_loop(
    daemon: Daemon,
    first: Snapshot,
    signals: Signals,
    publish: Callable[[Snapshot], None],
    reload: Callable[[Snapshot], Snapshot],
    notifier: Notifier,
) -> None:
    """Run one period after the other, each at its deadline on the monotonic clock, until a signal to stop."""
    snapshot = first
    deadline = time.monotonic()
    while not signals.stopped:
        notifier.beat(time.monotonic())
        if signals.take_reload():
            snapshot = reload(snapshot)
            publish(snapshot)
            deadline = min(deadline, time.monotonic() + snapshot.period)
        remaining = deadline - time.monotonic()
        if signals.wait(min(remaining, notifier.pause)) or remaining > notifier.pause:
            continue
        now = time.monotonic()
        if now - deadline > LATE * snapshot.period:
            daemon.count_late(1)
        snapshot = replace(daemon.period(now, snapshot), lateness=now - deadline)
        publish(snapshot)
        # Periods that were missed are left out: catching up would only look at the same instant twice.
        missed = int((time.monotonic() - deadline) / snapshot.period)
        daemon.count_late(missed)
        deadline += (missed + 1) * snapshot.period
