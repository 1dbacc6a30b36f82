"""The loop's real-time priority: its bound, and what is said and done once it is gone."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import reserved
from realtime import need_nice, need_realtime, policy_of
from running import Site, end
from waiting import until

from qioi.daemon.own import protect_loop
from qioi.daemon.realtime import AGAIN, Realtime

#: A loop that does not pause, for 20 s of CPU at most, with a bound that is shorter than the daemon's, and a thread
#: that has its priority.
ENDLESS = """
import logging, os, sys, threading, time
from qioi.daemon import realtime
logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
realtime.RT_MICROSECONDS = 50_000
one = realtime.Realtime(True)
assert one.take() is None
end, thread = threading.Event(), threading.Thread(target=lambda: end.wait(), daemon=True)
thread.start()
one.share([thread.native_id])
def policies():
    return [os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK for tid in (0, thread.native_id)]
for round in range(2):
    began = time.process_time()
    print(*policies())
    while os.sched_getscheduler(0) == realtime.REALTIME and time.process_time() < 20:
        pass
    print(*policies(), "after", time.process_time() - began > 0.03, flush=True)
    for seconds in (0.0, 1.0, realtime.AGAIN):
        one.look(2 * round * realtime.AGAIN + seconds)
end.set()
os.sched_setscheduler(0, realtime.ORDINARY, os.sched_param(0))  # the bound is too short for Python's own end
"""
GIVEN_UP = "given up, since the loop did not pause for a second: the loop may run late on a busy host"


def test_a_loop_that_does_not_pause_gives_realtime_up_says_so_and_has_it_again_later() -> None:
    need_realtime()
    done = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, check=False)
    one = [
        f"{os.SCHED_RR} {os.SCHED_RR}",
        f"{os.SCHED_OTHER} {os.SCHED_OTHER} after True",
        f"own protection: real-time priority was {GIVEN_UP}",
        "own protection: real-time priority is in force again",
    ]
    assert (done.returncode, done.stdout.splitlines()) == (0, 2 * one), done.stderr


#: Asks for the priority under the unit's capabilities, and tells the answer, the priority and the limits.
LIMITED = """
import os, resource
from qioi.daemon.realtime import Realtime
print(Realtime(True).take(), os.sched_getparam(0).sched_priority == 1, *resource.getrlimit(resource.RLIMIT_RTTIME))
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
    need_realtime()
    command = ["prlimit", f"--rttime={hard}", *UNIT, sys.executable, "-c", LIMITED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{said}\n"), done.stderr


#: Protects itself, and tells its nice value and whether it has the priority, and the same of a thread and of a child.
BEGINNERS = """
import subprocess, sys, threading
from qioi.daemon.own import protect_loop
from qioi.daemon.realtime import Realtime
protect_loop(-10, Realtime(sys.argv[1] == "wanted"))
tell = "import os; print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getparam(0).sched_priority > 0, flush=True)"
exec(tell)
thread = threading.Thread(target=exec, args=(tell,))
thread.start()
thread.join()
subprocess.run([sys.executable, "-c", tell])
"""
REFUSED = ["sh", "-c", 'renice -n -10 $$ > /dev/null && exec setpriv --bounding-set=-sys_nice "$0" "$@"']


@pytest.mark.slow
@pytest.mark.parametrize(
    ("below", "wanted", "loop"),
    [([], "wanted", "-10 True"), (REFUSED, "wanted", "-10 False"), ([], "not wanted", "-10 False")],
)
def test_threads_and_children_begin_without_the_loops_priorities(below: list[str], wanted: str, loop: str) -> None:
    need_nice()
    if loop.endswith("True"):
        need_realtime()
    command = [*below, sys.executable, "-c", BEGINNERS, wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [loop, "0 False", "0 False"]


#: Tells which of the loop, a thread that has its priority and a new one have it: at first, when somebody else has taken
#: it from the loop alone, when they have given it back, and when they have changed its policy, as chrt(1) does.
LED = """
import os, threading
from qioi.daemon.own import protect_loop
from qioi.daemon.realtime import Realtime
def tell():
    new = []
    thread = threading.Thread(target=lambda: new.append(os.sched_getparam(0).sched_priority))
    thread.start()
    thread.join()
    print(*(os.sched_getparam(tid).sched_priority for tid in (0, companion.native_id)), *new, flush=True)
one = Realtime(True)
assert protect_loop(-10, one) is None
end = threading.Event()
companion = threading.Thread(target=lambda: end.wait(), daemon=True)
companion.start()
one.share([companion.native_id])
one.look(0.0)
tell()
for second, (policy, priority) in enumerate([(os.SCHED_OTHER, 0), (os.SCHED_RR, 1), (os.SCHED_FIFO, 10)], 1):
    os.sched_setscheduler(0, policy, os.sched_param(priority))
    one.look(float(second))
    tell()
end.set()
"""


def test_threads_that_have_it_follow_the_loop_also_where_somebody_else_moves_that() -> None:
    need_nice()
    need_realtime()
    done = subprocess.run([sys.executable, "-c", LED], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1 1 0", "0 0 0", "1 1 0", "10 1 0"]


def threads_of(process: int) -> list[int]:
    return [int(one.name) for one in Path(f"/proc/{process}/task").iterdir()]


def with_it(process: int) -> list[int]:
    return [one for one in threads_of(process) if policy_of(one) != os.SCHED_OTHER]


@pytest.mark.slow
def test_of_a_daemons_threads_the_loop_and_those_that_answer_have_it(site: Site) -> None:
    need_realtime()
    site.component("peer0")
    with reserved() as port:
        site.changes = {"docker": {"socket": str(site.folder / "no.sock")}, "metrics": {"port": port}}
        process = site.start()
        until(lambda: len(with_it(process.pid)) == 3)  # those that answer are given it after they have begun to
        assert process.pid in with_it(process.pid)
        assert len(threads_of(process.pid)) > 3
        assert end(process)[0] == 0


class Kernel:
    """The kernel's answers to a process without CAP_SYS_NICE: a priority, and whether it grants one."""

    def __init__(self) -> None:
        self.priority = 0
        self.grants = True
        self.asked = 0
        self._flag = 0

    @property
    def policy(self) -> int:
        return (os.SCHED_RR if self.priority else os.SCHED_OTHER) | self._flag

    def set(self, pid: int, policy: int, param: os.sched_param) -> None:
        self.asked += param.sched_priority > 0
        if (param.sched_priority and not self.grants) or policy & os.SCHED_RESET_ON_FORK < self._flag:
            raise PermissionError(1, "Operation not permitted")
        self._flag = policy & os.SCHED_RESET_ON_FORK
        self.priority = param.sched_priority


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    kernel = Kernel()
    monkeypatch.setattr(os, "sched_setscheduler", kernel.set)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: kernel.policy)
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


def test_a_right_by_a_limit_alone_suffices_to_give_it_up(kernel: Kernel, heard: pytest.LogCaptureFixture) -> None:
    one = Realtime(True)
    assert protect_loop(None, one) is None
    signal.raise_signal(signal.SIGXCPU)
    look(one, 0.0)
    assert (kernel.priority, heard.messages) == (0, [f"own protection: real-time priority was {GIVEN_UP}"])


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
