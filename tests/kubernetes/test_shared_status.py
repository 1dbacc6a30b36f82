"""What nodes say in the status of a policy and as events, against a real API server that comes and goes."""

from __future__ import annotations

import dataclasses
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from demo_k8s.control_plane import ControlPlane, until
from demo_k8s.objects import add_policy, admit_pods, policy_path, start_pod
from k8s_node import stop_server
from k8s_policy_objects import sight
from msgspec.structs import replace

from qioi.kubernetes.absence import LOST, SPREAD
from qioi.kubernetes.client import Access, Api
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.events import Telling
from qioi.kubernetes.pods import read_pod
from qioi.kubernetes.policies import judge
from qioi.kubernetes.remote import FORGET, ClusterChannels
from qioi.kubernetes.reporter import Reporter, manager_of
from qioi.kubernetes.reports import PAUSE, document

pytestmark = pytest.mark.slow


def managers(plane: ControlPlane, path: str) -> set[str]:
    """Name the field managers of a policy's status."""
    known = plane.call("GET", path)["metadata"]["managedFields"]
    return {one["manager"] for one in known if one.get("subresource") == "status"}


def test_two_nodes_speak_in_one_status_and_take_their_words_back(
    plane: ControlPlane, namespace: str, access: Access
) -> None:
    add_policy(plane, namespace, "red")
    path = policy_path(namespace, "red")

    def status() -> dict[str, Any]:
        found: dict[str, Any] = plane.call("GET", path).get("status", {})
        return found

    def said_by() -> set[str]:
        return {one["name"] for one in status().get("nodes", ())}

    with closing(Api(access)) as first_api, closing(Api(access)) as second_api:
        # By a clock that stands still: nothing is said again because it was said long ago.
        first, second = (
            Reporter(api, f"node-{name}", lambda: 0.0) for api, name in ((first_api, "a"), (second_api, "b"))
        )
        first.start()
        second.start()
        first.offer({path: sight(plane, namespace, "node-a", 70.0)})
        until(lambda: said_by() == {"node-a"}, "the first has spoken")
        second.offer({path: sight(plane, namespace, "node-b", 71.0)})
        until(lambda: said_by() == {"node-a", "node-b"}, "both have spoken")
        whole = status()
        assert whole["throughput"] == 70.0  # by the first in the order of names
        assert {one["name"] for one in whole["components"]} == {"peer-node-a", "peer-node-b"}
        assert [one["reason"] for one in whole["conditions"]] == ["InForce"]
        second.close()
        assert said_by() == {"node-a"}
        first.close()
        assert status().keys() == {"observedGeneration", "conditions"}
        assert first_api.requests["apply", "200"] == 3  # the verdict, its word, and taking it back
        assert managers(plane, path) == {"qioi"}


def test_a_node_whose_pods_have_moved_is_no_manager_of_the_status_any_more(
    plane: ControlPlane, namespace: str, access: Access
) -> None:
    """Nobody would remove it after the node's death, and each node that is replaced has another name."""
    add_policy(plane, namespace, "red")
    path = policy_path(namespace, "red")
    with closing(Api(access)) as api:
        reporter, now = Reporter(api, "node-a", lambda: now[0]), [0.0]
        for _ in range(2):
            now[0] += PAUSE
            reporter.offer({path: sight(plane, namespace, "node-a", 70.0)})
            reporter._round()
            assert managers(plane, path) == {"qioi", "qioi-node-a"}
            now[0] += PAUSE
            reporter.offer({path: dataclasses.replace(sight(plane, namespace, "node-a", 70.0), rows=())})
            reporter._round()
            assert managers(plane, path) == {"qioi"}
            assert plane.call("GET", path)["status"]["conditions"][0]["reason"] == "InForce"
            assert reporter.problem is None


def test_a_policy_that_is_made_again_hears_at_once_what_its_predecessor_has(
    plane: ControlPlane, namespace: str, access: Access
) -> None:
    """`kubectl replace --force`: another object of the same name, spec and generation, whose status is empty."""
    path = policy_path(namespace, "red")

    def said_by() -> set[str]:
        return {one["name"] for one in plane.call("GET", path).get("status", {}).get("nodes", ())}

    with closing(Api(access)) as api, closing(Reporter(api, "node-a", lambda: 0.0)) as reporter:
        reporter.start()
        for _ in range(2):
            add_policy(plane, namespace, "red")
            reporter.offer({path: sight(plane, namespace, "node-a", 70.0)})
            until(lambda: said_by() == {"node-a"}, "it has spoken")
            plane.call("DELETE", path)


def test_what_a_lost_node_has_said_is_taken_back_by_another(
    plane: ControlPlane, namespace: str, access: Access
) -> None:
    add_policy(plane, namespace, "red")
    path = policy_path(namespace, "red")
    later = 0.0

    def said_by(what: str) -> set[str]:
        status = plane.call("GET", path).get("status", {})
        return {one["name" if what == "nodes" else "node"] for one in status.get(what, ())}

    def rate_of(node: str) -> float | None:
        found = plane.call("GET", path)["status"]["nodes"]
        return next((one.get("throughput") for one in found if one["name"] == node), None)

    with closing(Api(access)) as first_api, closing(Api(access)) as second_api:
        lost = Reporter(first_api, "node-a")
        lost.start()
        lost.offer({path: sight(plane, namespace, "node-a", 70.0)})
        until(lambda: said_by("nodes") == {"node-a"}, "the first has spoken")
        lost._stop.set()  # its node went away
        other = Reporter(second_api, "node-b", lambda: time.monotonic() + later)
        other.start()

        def offer(rate: float) -> None:
            one = sight(plane, namespace, "node-b", rate)
            other.offer({path: dataclasses.replace(one, looked=time.monotonic() + later)})

        offer(70.0)
        until(lambda: said_by("nodes") == {"node-a", "node-b"}, "the second has spoken")
        for before, rate in ((60, 100.0), (30, 200.0)):
            later = LOST - before
            offer(rate)
            # A round has said this, and at its end it has looked for nodes that are lost.
            until(lambda rate=rate: rate_of("node-b") == rate, "a round has passed")
        assert said_by("components") == {"node-a", "node-b"}
        later = LOST + SPREAD + 60
        offer(200.0)
        until(lambda: said_by("nodes") == said_by("components") == {"node-b"}, "what the lost one has said is gone")
        assert plane.call("GET", path)["status"]["nodes"][0]["name"] == "node-b"
        other.close()
        assert plane.call("GET", path)["status"].keys() == {"observedGeneration", "conditions"}
        assert managers(plane, path) == {"qioi"}


def test_after_an_outage_no_node_is_lost_that_could_not_renew(
    plane: ControlPlane, namespace: str, access: Access
) -> None:
    """Its watch noticed nothing; its own write failed, and so will have those of others."""
    add_policy(plane, namespace, "red")
    path, later = policy_path(namespace, "red"), 0.0
    nodes = [{"name": "node-a", "observedAt": "2026-01-01T00:00:00Z"}]

    def said_by() -> set[str]:
        return {one["name"] for one in plane.call("GET", path)["status"]["nodes"]}

    with closing(Api(access)) as api:
        (judged,) = judge([plane.call("GET", path)])
        api.apply_status(path, document(judged, {"nodes": nodes}), manager_of("node-a"))
        reporter = Reporter(api, "node-b", lambda: time.monotonic() + later)
        first = sight(plane, namespace, "node-b", 70.0)

        def round_at(after: float, rate: float) -> None:
            nonlocal later
            later = after
            channel = replace(first.channel, throughput=rate)
            reporter.offer({path: dataclasses.replace(first, channel=channel, looked=time.monotonic() + later)})
            reporter._round()

        round_at(0.0, 70.0)
        stop_server(plane)
        try:
            round_at(60.0, 700.0)
            assert reporter.problem
        finally:
            plane.start_server()
        for after in (LOST + SPREAD + 60, LOST + SPREAD + 120):
            round_at(after, 700.0)
            assert said_by() == {"node-a", "node-b"}
        round_at(3 * (LOST + SPREAD), 700.0)
        assert said_by() == {"node-b"}


def test_a_node_without_peers_acts_on_what_another_sees(
    plane: ControlPlane, namespace: str, access: Access, tmp_path: Path
) -> None:
    add_policy(plane, namespace, "red")
    key, here = f"{namespace}/red", f"{namespace}-here"
    admit_pods(plane, namespace)
    start_pod(plane, namespace, "orderer0", here, labels={"qioi.io/role": "orderer"})
    with closing(Api(access)) as first, closing(Api(access)) as second:
        reporter = Reporter(first, "node-a")
        reporter.start()
        with closing(Cluster(second, here, tmp_path, "/var/log/pods")) as cluster:
            cluster.start()
            channels = ClusterChannels(cluster.reports)
            until(lambda: key in cluster.view().policies, "the policy is seen")
            channels.watch((), cluster.view().policies)
            assert key not in channels.read(time.monotonic())
            reporter.offer({policy_path(namespace, "red"): sight(plane, namespace, "node-a", 70.0)})
            reading = until(lambda: channels.read(time.monotonic()).get(key), "the rate has come over")
            assert (reading.throughput, reading.age) == (70.0, 0.3)
            assert key not in channels.read(time.monotonic() + FORGET + 1)
            reporter.close()
            until(lambda: key not in channels.read(time.monotonic()), "what is taken back is not believed")


def test_a_pod_has_one_event_for_each_reason_that_counts(plane: ControlPlane, namespace: str, api: Api) -> None:
    admit_pods(plane, namespace)
    start_pod(plane, namespace, "peer0", f"{namespace}-here", labels={"qioi.io/role": "peer"})
    found = read_pod(plane.call("GET", f"/api/v1/namespaces/{namespace}/pods/peer0"))
    assert found is not None
    path = f"/api/v1/namespaces/{namespace}/events"

    def there() -> list[tuple[str, int, str]]:
        return [(one["reason"], one["count"], one["message"]) for one in plane.call("GET", path)["items"]]

    def tell(*messages: str) -> None:
        reporter.tell([Telling(found, "SharesRaised", message, time.time()) for message in messages])

    with closing(Reporter(api, "node-a")) as reporter:
        reporter.start()
        tell("a")
        until(lambda: there() == [("SharesRaised", 1, "a")], "an event is on the pod")
        tell("b", "c", "d")
        until(lambda: there() == [("SharesRaised", 4, "d")], "what is told again is counted in it")
        assert "SharesRaised" in plane.kubectl("describe", "pod", "peer0", "-n", namespace)
        (event,) = plane.call("GET", path)["items"]
        plane.call("DELETE", f"{path}/{event['metadata']['name']}")
        tell("e")
        until(lambda: there() == [("SharesRaised", 1, "e")], "where it is gone, another one is made")
        until(lambda: api.requests["post", "201"] == 2, "the answer has come, too")
        assert api.requests["patch", "404"] == 1
