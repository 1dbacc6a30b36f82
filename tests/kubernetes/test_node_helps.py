"""The law `adaptive` on a whole real node, beside pods that want all of its CPU: it acts, it helps, it goes back."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo_k8s.control_plane import until
from idle_host import need_idle_host
from k8s_node import Node
from k8s_policy import PAY, shares, status, write_policy
from test_node import daemon, is_forgotten, node

__all__ = ["daemon", "node"]  # the fixtures

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(600)]

#: Most of a core's worth of work for the peer, if it got it: commits a second at most, and CPU time for each in ms.
RATE, WORK = 200, 4
#: Seconds over which commits are counted.
WINDOW = 6.0
#: Two neighbours for every CPU, each four times as heavy as the peer: it is left a seventeenth of the CPUs.
HOGS = tuple(f"hog{number}" for number in range(2 * (os.cpu_count() or 1)))
FOUND = 102


@pytest.fixture
def peer(daemon: Node) -> Iterator[Path]:
    """A peer beside the neighbours; give its pod's group."""
    names = ["peer0", *HOGS]
    daemon.run_pod("peer0", ["peer", "payments", str(RATE), str(WORK)], labels={"qioi.io/role": "peer"})
    for name in HOGS:
        daemon.run_pod(name, ["hog"], cpu="400m")
    until(lambda: all(daemon.running(name) for name in names), "peer and hogs run")
    yield daemon.groups("peer0")[0]
    daemon.plane.kubectl("delete", "isolationpolicies", "-n", "default", "--all")
    delete(daemon, *names)


def delete(node: Node, *names: str) -> None:
    """Delete pods, and wait until the daemon has forgotten them."""
    node.plane.kubectl("delete", "pod", *names, "-n", "default", "--ignore-not-found", "--grace-period=0", "--force")
    until(lambda: is_forgotten(*names), "they are forgotten")


def block() -> int:
    """The number of the block that the peer has written last."""
    logs = sorted(Path("/var/log/pods").glob("default_peer0_*/main/*.log"), key=lambda one: one.stat().st_mtime)
    return int(re.findall(r"Committed block \[(\d+)\]", logs[-1].read_text())[-1])


def rate() -> float:
    """Commits a second, counted in the peer's log."""
    began, first = time.monotonic(), block()
    time.sleep(WINDOW)
    last = block()
    return (last - first) / (time.monotonic() - began)


def test_beside_hogs_it_commits_more_than_twice_what_it_does_without(daemon: Node, peer: Path) -> None:
    """Without, with, and without again, so that nothing else that changes on the machine passes for help."""
    without = rate()
    assert shares(peer) == FOUND
    write_policy(daemon, law="adaptive", threshold=None)
    until(lambda: shares(peer) >= 4 * FOUND, "the pod is raised")
    helped = rate()
    until(lambda: [one["level"] for one in status(daemon).get("components", ())], "the status tells")
    daemon.plane.call("DELETE", PAY)
    until(lambda: shares(peer) == FOUND, "without a policy it is as it was found")
    again = rate()
    print(f"commits a second: {without:.1f} without, {helped:.1f} with, {again:.1f} without")  # with pytest -s
    assert helped > 2 * max(without, again), (without, helped, again)


@pytest.fixture
def idle_host() -> None:
    need_idle_host()


def test_shares_go_back_when_the_hogs_leave(idle_host: None, daemon: Node, peer: Path) -> None:
    write_policy(daemon, law="adaptive", threshold=None)
    until(lambda: shares(peer) > FOUND, "the pod is raised")
    delete(daemon, *HOGS)
    until(lambda: shares(peer) == FOUND, "it is as it was found")
    assert status(daemon)["components"]
