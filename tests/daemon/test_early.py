"""Periods that begin before their turn: when they are due, and that real neighbours bring them about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from running import Site, end, until

from qioi.early import EVERY, LOADAVG, SHORT, EarlyLooks, Pace
from qioi.monitor.onset import KNOWN, PAUSE, runnable


def test_periods_follow_each_other() -> None:
    pace = Pace(10.0)
    assert pace.ended(10.05, 1.0) == 0
    assert (pace.due, pace.early) == (11.0, None)
    assert pace.ended(13.5, 1.0) == 2  # missed
    assert pace.due == 14.0
    pace.sooner(11.2, 0.5)
    assert pace.due == 11.7


def test_an_onset_brings_two_periods_at_once_and_then_they_follow_each_other_again() -> None:
    pace = Pace(10.0)
    pace.ended(10.01, 1.0)
    pace.hurry(10.4, "27 threads are runnable")
    assert (pace.due, pace.early) == (10.4, "27 threads are runnable")
    assert pace.ended(10.42, 1.0) == 0
    assert pace.due == pytest.approx(10.4 + SHORT)
    assert pace.early is not None
    assert "after 27 threads are runnable" in pace.early
    assert pace.ended(10.72, 1.0) == 0
    assert pace.due == pytest.approx(11.4 + SHORT)
    assert pace.early is None


def test_a_host_that_does_not_say_is_not_looked_at(tmp_path: Path) -> None:
    looks = EarlyLooks(tmp_path / "missing")
    assert looks.pause(1.0) == float("inf")
    assert looks.look(0.0) is None
    (tmp_path / "loadavg").write_text("nothing\n")
    looks = EarlyLooks(tmp_path / "loadavg")
    assert looks.pause(1.0) == EVERY
    assert looks.pause(0.1) == float("inf")  # as prompt by itself
    assert looks.look(0.0) is None
    assert looks.pause(1.0) == float("inf")


@pytest.mark.slow
def test_real_neighbours_bring_two_periods_before_their_turn(site: Site) -> None:
    site.component("peer0")
    site.changes = {"period": 60.0, "channels": {"red": {"threshold": 1000, "law": "adaptive"}}}
    process = site.start()
    until(lambda: totals(site)["periods"] == 1)
    before = early_until_now(site)
    with neighbours(32 + 4 * runnable(LOADAVG.read_bytes())):  # this host may have others already
        until(lambda: totals(site)["early"] >= before + 2)
    now = totals(site)
    assert now["periods"] == 1 + now["early"]  # the other ones are a minute apart
    said = site.qioi("explain", "peer0", "--socket", str(site.socket)).stdout
    assert f"decided before its turn: {SHORT:g} s after " in said
    assert "threads are runnable, usual are " in said
    assert end(process)[0] == 0


def early_until_now(site: Site) -> int:
    """Wait until what is usual on this host is known, and no other onset keeps the next one back; count the early."""
    for _ in range(5):  # a busy host has onsets of its own
        before = totals(site)["early"]
        time.sleep(KNOWN + PAUSE)
        if totals(site)["early"] == before:
            break
    return totals(site)["early"]


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Have so many busy loops come at once, each a process."""
    code = f"import os\nfor _ in range({count - 1}):\n    if os.fork() == 0: break\nwhile True: pass"
    first = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()


def totals(site: Site) -> dict[str, int]:
    status = site.status()
    assert status is not None
    return dict(status["totals"])
