"""A daemon that starts while the API server is away: nothing is taken for the first list but a list."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from k8s_objects import ID, pod_object, policy_object
from k8s_site import KEY
from k8s_toy_server import Quiet, answering
from toy_daemon import ToySite, peer
from waiting import until

import qioi.kubernetes.policy_watch
import qioi.kubernetes.reflector
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.handover import keep
from qioi.controller.guard.journal import Journal
from qioi.controller.levers.files import Files
from qioi.daemon.daemon import LISTING_PATIENCE, Daemon
from qioi.daemon.inherit import inherit
from qioi.kubernetes.actuators import Means, Offer
from qioi.kubernetes.choice import Choice
from qioi.kubernetes.client import Api, Object
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.remote import ClusterChannels
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.roster import ClusterRoster

POD = "kubepods/burstable/poduid-of-peer0"
GROUP = f"{POD}/{ID}"


class Server:
    """What a server has; it refuses to list the kinds in ``away``."""

    def __init__(self) -> None:
        self.pods: list[Object] = []
        self.away = {"pods", "isolationpolicies"}
        self.over = threading.Event()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def api(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind = self.path.partition("?")[0].rpartition("/")[2]
            if kind in server.away:
                self.answer({"message": "not now"}, 503)
            elif "watch=true" in self.path:
                self.send_response(200)
                self.end_headers()
                server.over.wait()
            else:
                items = server.pods if kind == "pods" else [policy_object()]
                self.answer({"metadata": {"resourceVersion": "7"}, "items": items})

    for module in (qioi.kubernetes.reflector, qioi.kubernetes.policy_watch):
        monkeypatch.setattr(module, "RETRY_MAX", 0.02)
    with answering(Answer) as api:
        try:
            yield api
        finally:
            server.over.set()


@pytest.fixture
def cluster(api: Api, tmp_path: Path) -> Iterator[Cluster]:
    one = Cluster(api, "n1", tmp_path / "cgroup", str(tmp_path / "logs"))
    one.start()
    yield one
    one.close()


def roster_of(cluster: Cluster) -> ClusterRoster:
    """Make a roster; its reporter and its choice are not started."""
    choice = Choice((Offer(Means.FILES, True, "cpu.weight"),), cluster.api)
    return ClusterRoster(cluster, ClusterChannels(cluster.reports), Reporter(cluster.api, "n1"), choice)


@pytest.mark.parametrize("last", ["pods", "isolationpolicies"])
def test_a_node_without_pods_has_a_complete_list_once_both_kinds_are_listed(
    cluster: Cluster, server: Server, last: str
) -> None:
    roster = roster_of(cluster)
    server.away = {last}
    until(lambda: set(cluster.view().problems) == {f"kubernetes {last.removeprefix('isolation')}"}, what="one answers")
    roster.attend(0.0)
    first = roster.listing(())
    assert not first.complete
    server.away = set()
    until(lambda: not cluster.view().problems, what="both answer")
    roster.attend(1.0)
    assert roster.listing(()) is not first
    assert (roster.listing(()).complete, roster.listing(()).components) == (True, ())


@pytest.fixture
def site(tmp_path: Path) -> ToySite:
    """A peer's pod, raised by a daemon that has kept its share at its end."""
    site = ToySite(tmp_path, [peer("peer0", GROUP, "payments")], channels={"payments": {}}, on_exit="keep")
    site.toy.waits, site.toy.tps = {"peer0": (0.1, 0.9)}, {"payments": 10.0}
    site.run(5)
    assert site.weight(GROUP) > 100
    keep(site.config.state_dir, site.guard, None)
    return site


def start(site: ToySite, cluster: Cluster) -> None:
    """Start the next daemon, on a node of the cluster."""
    site.configure(components=[], channels={}, kubernetes={"node": "n1", "server": "http://127.0.0.1:9"})
    site.guard = Guard(site.hierarchy, Files(site.hierarchy), Journal(site.config.state_dir), clock=lambda: site.now)
    kept = inherit(site.config, site.guard, site.hierarchy)
    site.toy.waits, site.toy.tps = {"fab/peer0": (0.1, 0.9)}, {KEY: 10.0}
    instruments = site.toy.as_instruments(site.guard, site.hierarchy)
    site.now = time.monotonic()
    site.daemon = Daemon(site.config, site.guard, instruments, roster_of(cluster), kept)
    site.snapshot = site.daemon.blank("files", 2)


def test_what_a_daemon_has_kept_stays_until_its_pods_are_listed(
    site: ToySite, cluster: Cluster, server: Server
) -> None:
    server.pods = [pod_object(labels={"qioi.io/role": "peer"})]
    raised = site.weight(GROUP)
    start(site, cluster)
    site.run(int(LISTING_PATIENCE) - 1)
    assert site.weight(GROUP) == raised
    server.away = set()
    until(lambda: cluster.view().components, what="the pod is a component")
    site.run(2)
    assert site.weight(GROUP) > 100
    site.guard.restore()
    assert site.weight(GROUP) == 100


def test_a_server_that_never_answers_holds_no_share_for_good(site: ToySite, cluster: Cluster) -> None:
    start(site, cluster)
    site.run(int(LISTING_PATIENCE) + 1)
    assert site.weight(GROUP) == 100


def test_pods_are_followed_once_their_list_is_taken_in(api: Api, server: Server, tmp_path: Path) -> None:
    """Else those of which a killed daemon has left a record would seem to be gone."""
    found: list[tuple[bool, int]] = []

    class Watched(Cluster):
        def _take_pods(self, objects: Mapping[str, Object]) -> None:
            found.append((self.followed(), len(self.objects_by_uid())))
            super()._take_pods(objects)

    server.away, server.pods = set(), [pod_object()]
    with closing(Watched(api, "n1", tmp_path / "cgroup", str(tmp_path / "logs"))) as cluster:
        cluster.start()
        until(cluster.followed, what="the pods are followed")
        assert len(cluster.objects_by_uid()) == 1
    assert found[0] == (False, 0)


def test_a_pod_is_covered_once_a_policy_in_force_is_seen(api: Api, server: Server, cluster: Cluster) -> None:
    peers = {"qioi.io/role": "peer"}
    server.pods = [pod_object(labels=peers), pod_object("peer1", "other", labels=peers)]
    server.away = {"isolationpolicies"}
    until(cluster.followed, what="the pods are followed")
    assert not cluster.is_covered("uid-of-peer0")
    server.away = set()
    until(lambda: cluster.is_covered("uid-of-peer0"), what="its policy is seen")
    assert [cluster.is_covered(uid) for uid in ("uid-of-peer1", "uid-of-nobody")] == [False, False]
