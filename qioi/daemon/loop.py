"""Run the daemon's periods: each when it is due on the monotonic clock, between signals."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import signal
import time
from collections.abc import Callable

from msgspec.structs import replace

from qioi.controller.laws.kinds import KINDS
from qioi.daemon.daemon import Daemon
from qioi.daemon.notify import Notifier
from qioi.daemon.pace import Pace
from qioi.monitor.scheduler.onset_watch import OnsetWatch
from qioi.show.snapshot import Snapshot
from qioi.show.stalled import stalled

log = logging.getLogger("qioi")

#: A period counts as late if it begins later than this fraction of its length.
LATE = 0.2


class Signals:
    """Makes signals something to wait for, by a pipe that the handler writes to.

    SIGTERM and SIGINT stop the daemon, SIGHUP reloads; SIGHUP from a terminal that was closed stops it.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.stopped = False
        self._reload = False
        self._by_hand = os.isatty(2)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))  # one that came during the start is a reload

    def _handle(self, number: int, frame: object) -> None:
        if number == signal.SIGHUP and not self._by_hand:
            self._reload = True
        else:
            self.stopped = True
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so the waiter wakes up already
            os.write(self._write, b".")

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds``; return whether a signal came."""
        if select.select([self._read], [], [], max(0.0, seconds))[0]:
            os.read(self._read, 4096)
        return self.stopped or self._reload

    def take_reload(self) -> bool:
        """Return whether a reload was asked for since the last call."""
        asked, self._reload = self._reload, False
        return asked


def run_loop(
    daemon: Daemon,
    first: Snapshot,
    signals: Signals,
    publish: Callable[[Snapshot], None],
    reload: Callable[[Snapshot], Snapshot],
    notifier: Notifier,
    looks: OnsetWatch,
) -> None:
    """Run periods, each when it is due, until a signal to stop; look for onsets of interference in between."""
    snapshot = first
    begun = time.monotonic()
    pace = Pace(begun)
    while not signals.stopped:
        notifier.beat(time.monotonic())
        if signals.take_reload():
            snapshot = reload(snapshot)
            publish(snapshot)
            pace.sooner(time.monotonic(), snapshot.period)
        now = time.monotonic()
        look_at = now + pause(looks, now, snapshot)
        if signals.wait(min(pace.due - now, notifier.pause, look_at - now)):
            continue
        now = time.monotonic()
        if now >= look_at:
            if (why := looks.look(now)) is not None:
                pace.hurry(now, why)
        elif math.isinf(look_at) and now >= pace.due and is_prompt(snapshot):
            looks.look(now)  # short periods need no early one, but laws are told of an onset in them too
        if now < pace.due:
            continue
        if now - pace.due > LATE * snapshot.period:
            daemon.count_late(1)
        tell_of_gap(now - begun, snapshot.period)
        begun = now
        if pace.early is not None:
            daemon.count_early()
            log.debug("a period begins early: %s", pace.early)
        before = time.thread_time()
        snapshot = replace(daemon.period(now, snapshot), lateness=now - pace.due, early=pace.early)
        publish(snapshot)
        daemon.count_late(pace.ended(time.monotonic(), snapshot.period, time.thread_time() - before))


def tell_of_gap(seconds: float, period: float) -> None:
    """Log that for so long no period has begun, if that is unusual: the count of late ones does not say when it was."""
    if stalled(seconds, period):
        words = "no period began for %.0f s: the daemon was stopped, waited for something, or got no CPU"
        log.warning(words, seconds)


def pause(looks: OnsetWatch, now: float, snapshot: Snapshot) -> float:
    """Give the seconds to the next look for an onset; infinite where only Algorithm 1 runs, whose period is fixed."""
    return looks.pause(now, snapshot.period) if is_prompt(snapshot) else math.inf


def is_prompt(snapshot: Snapshot) -> bool:
    """Whether any channel's law reacts to an onset."""
    return any(KINDS[one.law].is_prompt for one in snapshot.channels)
