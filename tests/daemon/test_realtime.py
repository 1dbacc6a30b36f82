"""The loop's real-time priority: its bound, and what is said and done once it is gone."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from realtime import realtime

from qioi.daemon.own import protect_loop
from qioi.daemon.realtime import AGAIN, Realtime

#: A loop that does not pause, for 20 s of CPU at most, with a bound that is shorter than the daemon's.
ENDLESS = """
import logging, os, sys, time
from qioi.daemon import realtime
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
realtime.RT_MICROSECONDS = 50_000
one = realtime.Realtime(True)
assert one.take() is None
for round in range(2):
    began = time.process_time()
    while os.sched_getscheduler(0) == os.SCHED_RR and time.process_time() < 20:
        pass
    print("scheduler", os.sched_getscheduler(0), "after", time.process_time() - began > 0.03, flush=True)
    for seconds in (0.0, 1.0, realtime.AGAIN):
        one.look(2 * round * realtime.AGAIN + seconds)
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # the bound is too short for Python's own end
"""
GIVEN_UP = "given up, since the loop did not pause for a second: the loop may run late on a busy host"


def test_a_loop_that_does_not_pause_gives_realtime_up_says_so_and_has_it_again_later() -> None:
    with realtime():
        pass  # skipped where it is refused
    done = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, check=False)
    one = [
        f"scheduler {os.SCHED_OTHER} after True",
        f"own protection: real-time priority was {GIVEN_UP}",
        "own protection: real-time priority is in force again",
    ]
    assert (done.returncode, done.stdout.splitlines()) == (0, 2 * one), done.stderr


#: Asks for the priority under the unit's capabilities, and tells the answer, the priority and the limits.
LIMITED = """
import os, resource
from qioi.daemon.realtime import Realtime
print(Realtime(True).take(), os.sched_getscheduler(0) == os.SCHED_RR, *resource.getrlimit(resource.RLIMIT_RTTIME))
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
"""
UNIT = ["setpriv", "--bounding-set=-sys_resource"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop a capability")
@pytest.mark.parametrize(
    ("hard", "said"),
    [
        ("unlimited", "None True 1000000 -1"),
        (2_000_000, "None True 1000000 2000000"),  # twice the bound: time to give it up before the kernel kills
        (1_999_999, "real-time priority: not allowed to raise maximum limit False 1999999 1999999"),
    ],
)
def test_a_hard_limit_that_may_not_be_raised_is_kept_where_it_is_long_enough(hard: object, said: str) -> None:
    with realtime():
        pass  # skipped where it is refused
    command = ["prlimit", f"--rttime={hard}", *UNIT, sys.executable, "-c", LIMITED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{said}\n"), done.stderr


class Kernel:
    """The kernel's answers: a priority, and whether it grants one."""

    def __init__(self) -> None:
        self.priority = 0
        self.grants = True
        self.asked = 0

    def set(self, pid: int, policy: int, param: os.sched_param) -> None:
        self.asked += 1
        if not self.grants:
            raise PermissionError(1, "Operation not permitted")
        self.priority = param.sched_priority


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    kernel = Kernel()
    monkeypatch.setattr(os, "sched_setscheduler", kernel.set)
    monkeypatch.setattr(os, "sched_getparam", lambda _: os.sched_param(kernel.priority))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    before = signal.getsignal(signal.SIGXCPU)
    yield kernel
    signal.signal(signal.SIGXCPU, before)


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "qioi")
    return caplog


def look(one: Realtime, *seconds: float) -> None:
    for now in seconds:
        one.look(now)


def test_what_is_refused_at_the_start_is_asked_for_now_and_then(
    kernel: Kernel, heard: pytest.LogCaptureFixture
) -> None:
    kernel.grants = False
    one = Realtime(True)
    assert "real-time priority: [Errno 1] Operation not permitted" in str(protect_loop(None, one))
    look(one, *map(float, range(int(3 * AGAIN))))
    assert (kernel.asked, heard.messages) == (3, [])
    kernel.grants = True
    look(one, 3 * AGAIN, 3 * AGAIN + 1)
    assert heard.messages == ["own protection: real-time priority is in force again"]
    assert kernel.priority > 0


def test_what_somebody_else_takes_away_is_left_to_them_and_said_once(
    kernel: Kernel, heard: pytest.LogCaptureFixture
) -> None:
    one = Realtime(True)
    assert protect_loop(None, one) is None
    look(one, 0.0, 1.0)
    kernel.priority = 0
    look(one, 2.0, 3.0, 2 * AGAIN, 4 * AGAIN)
    lost = "own protection: real-time priority was taken away: the loop may run late on a busy host"
    assert (heard.messages, kernel.asked) == ([lost], 1)
    kernel.priority = 1
    look(one, 5 * AGAIN, 5 * AGAIN + 1)
    assert heard.messages == [lost, "own protection: real-time priority is in force"]


def test_nothing_is_asked_for_or_said_where_none_is_wanted(kernel: Kernel, heard: pytest.LogCaptureFixture) -> None:
    one = Realtime(False)
    assert protect_loop(None, one) is None
    look(one, 0.0, 2 * AGAIN, 4 * AGAIN)
    assert (kernel.asked, heard.messages) == (0, [])
