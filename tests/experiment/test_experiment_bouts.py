"""Neighbours in bouts end whatever goes wrong with the thread that stops and continues them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from waiting import until

from qioi.experiment.bouts import Bouts
from qioi.experiment.neighbours import Nobody


class Noting(Nobody):
    """Neighbours without a process, which note that they were stopped, and whose group may fail."""

    def __init__(self, group: object = None) -> None:
        self.groups: Any = () if group is None else (group,)
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


class Unreadable:
    """A group whose processes cannot be listed."""

    def signal(self, _: int) -> int:
        raise OSError(5, "Input/output error", "cgroup.procs")


def test_neighbours_that_cannot_be_stopped_for_a_rest_are_an_error() -> None:
    """They would rest, or work, until the cell's end, and the cell would count."""
    bouts = Bouts(neighbours := Noting(Unreadable()), 0.01)
    bouts.start()

    def failure() -> str:
        try:
            bouts.check()
        except OSError as error:
            return str(error)
        return ""

    assert until(failure) == "[Errno 5] Input/output error: 'cgroup.procs'"
    bouts.stop()
    assert neighbours.stopped


def test_neighbours_end_where_the_wait_for_a_bout_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    bouts = Bouts(neighbours := Noting(), 0.01)
    bouts.start()
    join = threading.Thread.join

    def interrupted(thread: threading.Thread) -> None:
        join(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bouts.stop()
    assert neighbours.stopped


def test_neighbours_end_where_no_thread_could_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    bouts = Bouts(neighbours := Noting(), 0.01)
    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        bouts.start()
    bouts.stop()
    assert neighbours.stopped
