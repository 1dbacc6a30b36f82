"""Real-time priority, as the daemon's loop has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def realtime() -> Iterator[None]:
    """Give this thread real-time priority, which its threads and children inherit; skip where it is refused."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except OSError as error:
        pytest.skip(f"no real-time priority here: {error}")
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
