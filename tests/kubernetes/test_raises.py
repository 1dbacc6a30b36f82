"""Requests that cannot be raised: files are written for their pods then, and the server is not asked for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from k8s_refusals import DENIED, FAILING, OUTDATED, SLOW, Node, Server, raised, refusing

from qioi.kubernetes.client import Api
from qioi.kubernetes.pods import Pod, read_pod
from qioi.kubernetes.resizes import PAUSE


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    with refusing(server) as api:
        yield api


def wanting(api: Api, folder: Path) -> tuple[Node, Pod]:
    """Give a node with one pod, whose request is as it was found and is to be raised."""
    node = Node(api, folder)
    node.pods["peer0"] = raised("peer0", cpu="100m", annotations={})
    pod = read_pod(node.pods["peer0"])
    assert pod is not None
    node.resizer.want(pod, 8192)
    return node, pod


@pytest.mark.parametrize(("failure", "most"), [(FAILING, 4), (SLOW, 4), (DENIED, 1)])
def test_a_raise_that_fails_is_given_up_within_a_minute(
    api: Api, server: Server, tmp_path: Path, failure: tuple[int, str], most: int
) -> None:
    """Files are written for its pod then."""
    server.status, server.message = failure
    node, pod = wanting(api, tmp_path)
    times = node.times(60.0)
    assert failure[1] in str(node.resizer.takes(pod))
    assert len(times) == most
    assert node.resizer.record("peer0") is None
    assert not (tmp_path / "requests").exists()


def test_a_raise_that_may_be_in_force_is_not_given_up(api: Api, server: Server, tmp_path: Path) -> None:
    """The server refuses what follows because its pod is not as seen: the watch is behind."""
    server.status, server.message = OUTDATED
    node, pod = wanting(api, tmp_path)
    node.times(60.0)
    assert node.resizer.takes(pod) is None
    server.status, server.message = FAILING
    node.pods["peer0"] = raised("peer0", cpu="8")
    node.resizer.want(pod, 16384)
    assert len(node.times(240.0)) < 8
    assert node.resizer.takes(pod) is None


def test_a_raise_that_failed_for_a_moment_is_made(api: Api, server: Server, tmp_path: Path) -> None:
    server.status, server.message = FAILING
    node, pod = wanting(api, tmp_path)
    node.times(2 * PAUSE)
    server.status = 200
    node.times(4 * PAUSE)
    assert node.resizer.takes(pod) is None
    assert node.resizer.problem("peer0") is None
    server.status, server.message = FAILING
    node.times(node.now + 5 * PAUSE)
    assert node.resizer.takes(pod) is None  # the time in which it fails has begun anew


def test_where_nothing_was_asked_for_the_files_are_free_at_once(api: Api, server: Server, tmp_path: Path) -> None:
    """The annotation fails, too, so that nothing can be taken back, and nothing need be."""
    server.message, server.all = FAILING[1], FAILING[0]
    node, pod = wanting(api, tmp_path)
    node.times(60.0)
    assert FAILING[1] in str(node.resizer.takes(pod))
    assert node.resizer.record("peer0") is None
    assert node.asked() == 0


def test_while_the_server_is_away_no_pod_is_taken_on(api: Api, tmp_path: Path) -> None:
    node, pod = wanting(api, tmp_path)
    assert node.resizer.takes(pod) is None
    node.followed = False
    node.times(1.0)
    assert node.resizer.takes(pod) == "the API server is away"
    assert node.resizer.record("peer0") is None
    node.followed = True
    assert node.resizer.takes(pod) is None


def test_while_the_server_is_away_what_is_moved_stays_so(api: Api, tmp_path: Path) -> None:
    node = Node(api, tmp_path, "peer0")
    node.leave_in_journal("peer0")
    node.followed = False
    node.times(1.0)
    assert node.resizer.record("peer0") is not None
    pod = read_pod(node.pods["peer0"])
    assert pod is not None
    assert node.resizer.takes(pod) is None
