"""A child process can be waited for, also after an interruption at any place, and may end with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from waiting import PATIENCE

from qioi.kernel.child import Child, mortal

LOOKS: dict[str, Callable[[Child[bytes]], Any]] = {
    "poll": lambda child: child.poll(),
    "wait for a moment": lambda child: child.wait(0.001),
    "wait": lambda child: child.wait(),
    "signal": lambda child: child.send_signal(0),
}


def interrupt_at(line: int, call: Callable[[], Any]) -> bool:
    """Raise KeyboardInterrupt before one of the lines that a call runs through; say whether it has as many."""
    left = line

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        call()
    except KeyboardInterrupt:
        return True
    except subprocess.TimeoutExpired:
        pass
    finally:
        sys.settrace(before)
    return False


def ended(child: Child[bytes]) -> bool:
    waiter = threading.Thread(target=child.wait, daemon=True)
    waiter.start()
    waiter.join(PATIENCE)
    return not waiter.is_alive()


@pytest.fixture
def sleeping() -> Iterator[Child[bytes]]:
    with Child(["sleep", "1000"]) as child:
        yield child
        child.kill()


@pytest.mark.parametrize("look", ["poll", "wait for a moment", "signal"])
def test_a_look_at_one_that_runs_may_be_interrupted_anywhere(sleeping: Child[bytes], look: str) -> None:
    line = 0
    while interrupt_at(line := line + 1, lambda: LOOKS[look](sleeping)):
        assert sleeping.poll() is None
    assert line > 1
    sleeping.kill()
    assert ended(sleeping)
    assert sleeping.returncode == -signal.SIGKILL


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_one_that_has_ended_may_be_interrupted_anywhere(look: str) -> None:
    line, more = 0, True
    while more:
        line += 1
        with Child(["true"]) as child:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            more = interrupt_at(line, lambda child=child: LOOKS[look](child))  # type: ignore[misc]
            assert ended(child), line
    assert line > 1


def test_its_status_is_given_for_ever() -> None:
    with Child(["sh", "-c", "exit 3"]) as child:
        assert child.wait(PATIENCE) == 3
        assert (child.poll(), child.wait(), child.wait(0), child.returncode) == (3, 3, 3, 3)


def test_a_wait_has_a_limit(sleeping: Child[bytes]) -> None:
    with pytest.raises(subprocess.TimeoutExpired, match=r"sleep.*0\.01 seconds"):
        sleeping.wait(0.01)
    assert sleeping.poll() is None


def test_one_that_somebody_else_has_reaped_has_ended() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with Child(["true"]) as child:
            assert child.wait(PATIENCE) == 0
    finally:
        signal.signal(signal.SIGCHLD, before)


PARENT = """
import time
from qioi.kernel.child import Child, mortal
child = Child(mortal(["sh", "-c", "echo up; exec sleep 1000"]))
time.sleep(1000)
"""


def test_a_mortal_one_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        parent.kill()
        assert parent.communicate(timeout=PATIENCE) == ("", None)  # which the child would hold open


def test_a_mortal_one_whose_parent_has_ended_before_does_not_begin() -> None:
    between = ["sh", "-c", '"$@"; exit $?', "sh"]
    done = subprocess.run([*between, *mortal(["echo", "begun"])], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_mortal_one_is_the_program_with_its_words_and_status() -> None:
    with Child(mortal(["sh", "-c", 'echo "$@"; exit 3', "sh", "a b", "", "$c"]), stdout=subprocess.PIPE) as child:
        assert child.communicate(timeout=PATIENCE)[0] == b"a b  $c\n"
        assert child.returncode == 3
