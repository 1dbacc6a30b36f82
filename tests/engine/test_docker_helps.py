"""The law `adaptive` on a real engine, beside containers that want all of the CPU: it acts, it helps, it goes back."""

from __future__ import annotations

import contextlib
import os
import time

import pytest
from engine_site import PEER, EngineSite
from idle_host import need_idle_host
from test_docker_daemon import Daemon, daemon, share
from waiting import until

__all__ = ["daemon"]  # the fixture

pytestmark = [pytest.mark.slow, pytest.mark.host]

#: A core's worth of work for the peer, if it got it: CPU time per commit in ms, and commits a second at most.
WORK, RATE = 4, 1000
#: Seconds over which commits are counted.
WINDOW = 6.0


@pytest.fixture
def hogs(engine: EngineSite) -> list[str]:
    """Two neighbours for every CPU, each four times as heavy as the peer: it is left a seventeenth of the CPUs."""
    names = [f"hog{number}" for number in range(2 * (os.cpu_count() or 1))]
    for name in names:
        engine.run_hog(name, cpu_shares=4096)
    return names


def block(engine: EngineSite) -> int:
    """The number of the block that the peer has written last."""
    with contextlib.closing(engine.client()) as client:
        text = client.api.logs("peer0", tail=1).decode()
    return int(text.partition("Committed block [")[2].partition("]")[0] or 0)


def rate(engine: EngineSite) -> float:
    """Commits a second, counted in the peer's log."""
    began, first = time.monotonic(), block(engine)
    time.sleep(WINDOW)
    last = block(engine)
    return (last - first) / (time.monotonic() - began)


def test_beside_hogs_it_commits_more_than_twice_what_it_does_without(
    daemon: Daemon, engine: EngineSite, hogs: list[str]
) -> None:
    """Without, with, and without again, so that nothing else that changes on the machine passes for help."""
    daemon.document["defaults"] = {}
    container = engine.run(PEER, "peer0", RATE, work=WORK)
    without = rate(engine)
    daemon.start()
    until(lambda: share(container) >= 4096)
    helped = rate(engine)
    until(lambda: engine.record("peer0") == share(container))  # it may be moved between the two looks
    assert daemon.components()["peer0"]["original"] == 1024
    assert daemon.end() == 0, daemon.log()
    assert (share(container), engine.record("peer0")) == (1024, 1024)
    again = rate(engine)
    print(f"commits a second: {without:.1f} without, {helped:.1f} with, {again:.1f} without")  # with pytest -s
    assert helped > 2 * max(without, again), (without, helped, again)


@pytest.fixture
def idle_host() -> None:
    need_idle_host()


def test_share_and_record_go_back_when_the_hogs_leave(
    idle_host: None, daemon: Daemon, engine: EngineSite, hogs: list[str]
) -> None:
    daemon.document["defaults"] = {}
    container = engine.run(PEER, "peer0", RATE, work=WORK)
    daemon.start()
    until(lambda: share(container) > 1024 and engine.record("peer0") == share(container))
    engine.remove("beside", *hogs)
    until(lambda: (share(container), engine.record("peer0")) == (1024, 1024))
    assert daemon.end() == 0, daemon.log()
    assert not (daemon.state / "journal").exists()
