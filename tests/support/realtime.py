"""Real-time priority and a nice value, as the daemon's loop has them."""

from __future__ import annotations

import os

import pytest


def need_realtime() -> None:
    """Skip a test where this thread is refused real-time priority."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except OSError as error:
        pytest.skip(f"no real-time priority here: {error}")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def need_nice() -> None:
    """Skip a test where this thread is refused a nice value below 0."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -1)
    except OSError as error:
        pytest.skip(f"no nice value below 0 here: {error}")
    os.setpriority(os.PRIO_PROCESS, 0, before)


def policy_of(thread: int) -> int:
    """Give a thread's policy without the flag that its children begin without the priority."""
    return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK
