"""The loop's real-time priority: it is bounded, its loss is said, and it is asked for again.

The lowest real-time priority counts everywhere, where a nice value counts only inside the daemon's own control group or
autogroup (sched(7)). RLIMIT_RTTIME bounds it: after a second without a pause it sends SIGXCPU, whose handler gives the
priority up. Both end with the process.

Threads and children begin without the priority and without a nice value below 0, also where the priority is refused:
what follows an engine or an API server has no bound, and the limit counts each thread's time, so one of them would lose
the loop its priority. The HTTP servers' threads have it with the loop. They rest after what they do, and the loop waits
for Python's lock while they make an answer, for half a second where components beside them have 262,144 shares.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

log = logging.getLogger("qioi")

#: Microseconds that the loop may run with real-time priority without a pause.
RT_MICROSECONDS = 1_000_000
#: The shortest hard limit, in microseconds, that leaves the loop time to give the priority up before it is killed.
SHORTEST = 2 * RT_MICROSECONDS
#: Seconds after which the priority is asked for again that was given up or refused.
AGAIN = 600.0
#: Policies, both with the flag that children begin without: only CAP_SYS_NICE may take the flag off, which a right to
#: the priority by RLIMIT_RTPRIO lacks (sched_setscheduler(2)).
REALTIME = os.SCHED_RR | os.SCHED_RESET_ON_FORK
ORDINARY = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK


class Realtime:
    """Real-time priority of the thread that calls, which is the main one. Times are monotonic, in seconds."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self._had = False
        self._given_up = False
        self._again: float | None = None
        self._companions: tuple[int, ...] = ()

    def share(self, threads: Iterable[int]) -> None:
        """Have these threads, which bound themselves, follow the loop: give the priority now if it is in force."""
        self._companions = tuple(threads)
        if self._had and not self._given_up:
            self._lead(REALTIME, lowest())

    def _lead(self, policy: int, priority: int) -> None:
        """Set the companions' priority. One that has ended needs none, and a refusal leaves it ordinary."""
        for thread in self._companions:
            with suppress(OSError):
                os.sched_setscheduler(thread, policy, os.sched_param(priority))

    def take(self) -> str | None:
        """Ask for the priority; say why it is refused."""
        try:
            signal.signal(signal.SIGXCPU, self._give_up)
            # What the loop had run without a pause when it gave the priority up counts on until it wakes up with it.
            # Each signal has moved this limit by a second.
            limit(2 * RT_MICROSECONDS)
            os.sched_setscheduler(0, REALTIME, os.sched_param(lowest()))
            time.sleep(0.001)
            limit(RT_MICROSECONDS)
        except (OSError, ValueError) as error:
            self._given_up = True  # so that it is asked for again
            return f"real-time priority: {error}"
        self._had, self._given_up = True, False
        self._lead(REALTIME, lowest())
        return None

    def _give_up(self, _number: int, _frame: object) -> None:
        """Give the priority up, because the loop did not pause for a second."""
        os.sched_setscheduler(0, ORDINARY, os.sched_param(0))
        self._lead(ORDINARY, 0)
        self._given_up = True

    def look(self, now: float) -> None:
        """Say that the priority is gone, and that it is back, once each. To be called once a period.

        What was given up or refused is asked for again every :data:`AGAIN` seconds. What somebody else has taken away
        is left to them, but not the flag, which chrt(1) takes off with any change.
        """
        keep_to_itself()
        if not self.wanted:
            return
        if in_force():
            if not self._had:
                log.info("own protection: real-time priority is in force")
                self._lead(REALTIME, lowest())
            self._had, self._given_up, self._again = True, False, None
            return
        if self._had:
            why = "given up, since the loop did not pause for a second" if self._given_up else "taken away"
            log.warning("own protection: real-time priority was %s: the loop may run late on a busy host", why)
            self._lead(ORDINARY, 0)
            self._had = False
        if not self._given_up:
            return
        if self._again is None:
            self._again = now + AGAIN
        elif now >= self._again:
            self._again = now + AGAIN
            if self.take() is None:
                log.info("own protection: real-time priority is in force again")


def keep_to_itself() -> None:
    """Have threads and children of this thread begin without its priority and without a nice value below 0."""
    policy = os.sched_getscheduler(0)
    if not policy & os.SCHED_RESET_ON_FORK:
        with suppress(OSError):  # a filter of system calls (seccomp(2)) may refuse it
            os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, os.sched_getparam(0))


def lowest() -> int:
    """Give the lowest real-time priority."""
    return os.sched_get_priority_min(os.SCHED_RR)


def limit(microseconds: int) -> None:
    """Bound how long the process may run with real-time priority without a pause. OSError; ValueError.

    At the hard limit the kernel kills the process, so one below :data:`SHORTEST` has to go, which takes
    CAP_SYS_RESOURCE.
    """
    most = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
    resource.setrlimit(resource.RLIMIT_RTTIME, (microseconds, most if most >= SHORTEST else resource.RLIM_INFINITY))


def in_force() -> bool:
    """Whether the calling thread has real-time priority."""
    return os.sched_getparam(0).sched_priority > 0
