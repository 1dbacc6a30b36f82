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
from hypothesis import given
from hypothesis import strategies as st
from running import Site, end
from waiting import until

from qioi.daemon.pace import REST, Pace
from qioi.monitor.scheduler.onset import KNOWN, PAUSE, runnable
from qioi.monitor.scheduler.onset_watch import EVERY, LOADAVG, SHORT, OnsetWatch


def test_periods_follow_each_other() -> None:
    pace = Pace(10.0)
    assert pace.ended(10.05, 1.0, 0.05) == 0
    assert (pace.due, pace.early) == (11.0, None)
    assert pace.ended(13.5, 1.0, 0.0) == 2  # missed
    assert pace.due == 14.0
    pace.sooner(11.2, 0.5)
    assert pace.due == 11.7


@given(
    st.floats(0.1, 10), st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3), st.booleans()), min_size=1, max_size=30)
)
def test_however_slow_the_host_is_the_loop_has_a_third_of_a_cpu_at_most(
    period: float, work: list[tuple[float, float, bool]]
) -> None:
    pace, now = Pace(0.0), 0.0
    for used, waited, early in work:
        now = max(now, pace.due) + used + waited
        if early:
            pace.hurry(now, "an onset")
        before = pace.due
        missed = pace.ended(now, period, used)
        assert pace.due - now >= REST * used - 1e-6
        assert missed >= 0
        assert pace.due > before


def test_an_onset_brings_two_periods_at_once_and_then_they_follow_each_other_again() -> None:
    pace = Pace(10.0)
    pace.ended(10.01, 1.0, 0.01)
    pace.hurry(10.4, "27 threads are runnable")
    assert (pace.due, pace.early) == (10.4, "27 threads are runnable")
    assert pace.ended(10.42, 1.0, 0.02) == 0
    assert pace.due == pytest.approx(10.4 + SHORT)
    assert pace.early is not None
    assert "after 27 threads are runnable" in pace.early
    assert pace.ended(10.72, 1.0, 0.02) == 0
    assert pace.due == pytest.approx(11.4 + SHORT)
    assert pace.early is None


def test_a_host_that_does_not_say_is_not_looked_at(tmp_path: Path) -> None:
    looks = OnsetWatch(tmp_path / "missing")
    assert looks.pause(0.0, 1.0) == float("inf")
    assert looks.look(0.0) is None
    (tmp_path / "loadavg").write_text("nothing\n")
    looks = OnsetWatch(tmp_path / "loadavg")
    assert looks.pause(0.0, 1.0) == 0.0
    assert looks.pause(0.0, 0.1) == float("inf")  # as prompt by itself
    assert looks.look(0.0) is None
    assert looks.pause(0.0, 1.0) == float("inf")


def test_looks_follow_each_other_whatever_periods_begin_between_them(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("0.5 0.5 0.5 2/100 7\n")
    looks = OnsetWatch(tmp_path / "loadavg")
    looks.look(10.0)
    assert looks.pause(10.0, 1.0) == pytest.approx(EVERY)
    assert looks.pause(10.15, 1.0) == pytest.approx(EVERY - 0.15)  # a period has just ended
    assert looks.pause(10.3, 1.0) == 0.0
    assert looks.pause(0.0, 1.0) == EVERY  # a clock that went back


def test_an_onset_that_is_found_as_a_period_is_due_shortens_the_next_one() -> None:
    pace = Pace(10.0)
    pace.hurry(10.01, "27 threads are runnable")
    assert (pace.due, pace.early) == (10.0, None)
    pace.ended(10.02, 1.0, 0.01)
    assert (pace.due, pace.early) == (10.0 + SHORT, f"{SHORT:g} s after 27 threads are runnable")
    pace.ended(10.32, 1.0, 0.01)
    assert (pace.due, pace.early) == (10.0 + SHORT + 1.0, None)


def test_for_a_second_after_an_onset_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("0.5 0.5 0.5 2/100 7\n")
    looks, crowd = OnsetWatch(tmp_path / "loadavg"), 1000 * (os.cpu_count() or 1)
    assert not looks.sudden()
    for tenth in range(40):
        looks.look(tenth / 10)
        assert not looks.sudden()
    (tmp_path / "loadavg").write_text(f"0.5 0.5 0.5 {crowd}/{crowd} 7\n")
    told = []
    for tenth in range(40, 60):
        looks.look(tenth / 10)
        told.append(looks.sudden())
    assert told == [False] + [True] * 10 + [False] * 9


@pytest.mark.slow
def test_real_neighbours_bring_two_periods_before_their_turn(site: Site) -> None:
    site.component("peer0")
    period = 60.0
    site.changes = {"period": period, "channels": {"red": {"threshold": 1000, "law": "adaptive"}}}
    begun = time.monotonic()
    process = site.start()
    until(lambda: totals(site)["periods"] >= 1)
    until(lambda: noticed(site), pause=PAUSE)  # an onset of the host's own shortly before keeps ours back
    now = totals(site)
    assert now["periods"] - now["early"] <= 1 + (time.monotonic() - begun) / period
    assert end(process)[0] == 0


def noticed(site: Site) -> bool:
    """Have neighbours come; say whether that brought the two periods, in far more time than it takes."""
    time.sleep(KNOWN)  # what is usual on this host, without them
    before = totals(site)["early"]
    with neighbours(24 + 2 * runnable(LOADAVG.read_bytes())):  # this host may have others already
        deadline = time.monotonic() + 10
        while totals(site)["early"] < before + 2 and time.monotonic() < deadline:
            time.sleep(EVERY)
    if totals(site)["early"] < before + 2:
        return False
    said = site.qioi("explain", "peer0", "--socket", str(site.socket)).stdout
    return f"decided before its turn: {SHORT:g} s after " in said and "threads are runnable, usual are " in said


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Have so many busy loops come at once, each a process.

    On a busy host it takes long to make so many one by one. They wait for the end of a pipe, which wakes all at once.
    The one that has made them ends it, and all of them once nobody has its own standard input, also if this process is
    killed.
    """
    code = f"""
import os, signal
start, go = os.pipe()
for _ in range({count}):
    if os.fork() == 0:
        os.close(go)
        signal.alarm(600)  # who should end it may be killed, too
        print(flush=True)
        os.read(start, 1)
        while True: pass
if os.read(0, 1):
    os.close(go)
    os.read(0, 1)
os.killpg(0, signal.SIGKILL)
"""
    first = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
    )
    assert first.stdin is not None
    assert first.stdout is not None
    with first:
        try:
            for _ in range(count):
                assert first.stdout.readline() == b"\n", "one could not be made"
            first.stdin.write(b"\n")
            yield
        finally:
            os.killpg(first.pid, signal.SIGKILL)


def totals(site: Site) -> dict[str, int]:
    status = site.status()
    assert status is not None
    return dict(status["totals"])
