"""The copy of a resource and the writes to a status, against a real API server that comes and goes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from demo_k8s.control_plane import PATIENCE, ControlPlane, until
from demo_k8s.objects import add_policy, admit_pods, pods_path, policy_path, start_pod
from k8s_node import stop_server
from k8s_policy_objects import change_policy
from msgspec.structs import replace

from qioi.kubernetes.absence import LOST, SPREAD
from qioi.kubernetes.client import PAGE, STRATEGIC, Access, Api, ApiError
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.events import Telling
from qioi.kubernetes.pods import MIRROR_ANNOTATION, read_pod
from qioi.kubernetes.policies import PATH, judge, slim_policy
from qioi.kubernetes.reflector import Reflector, has_no_version, not_older_than
from qioi.kubernetes.remote import FORGET, ClusterChannels
from qioi.kubernetes.reporter import Reporter, manager_of
from qioi.kubernetes.reports import PAUSE, SETTLED, Row, Sight, document
from qioi.show.snapshot import ChannelState, ComponentState

pytestmark = pytest.mark.slow


class Copy:
    """What a reflector has said last. Its thread says a new table each time: one that is read stays as it is."""

    def __init__(self) -> None:
        self.objects: Mapping[str, Any] = {}

    def take(self, objects: Mapping[str, Any]) -> None:
        self.objects = objects


def names(copy: Copy, namespace: str) -> set[str]:
    return {one["metadata"]["name"] for one in copy.objects.values() if one["metadata"]["namespace"] == namespace}


def test_changes_are_followed_without_asking_again(plane: ControlPlane, namespace: str, api: Api) -> None:
    add_policy(plane, namespace, "before")
    copy = Copy()
    with closing(Reflector(api, PATH, {}, copy.take, slim=slim_policy)) as reflector:
        reflector.start()
        assert reflector.wait(PATIENCE)
        until(lambda: names(copy, namespace) == {"before"}, "what there is is seen")
        for number in range(20):
            add_policy(plane, namespace, f"p{number}")
        until(lambda: len(names(copy, namespace)) == 21, "all policies are seen")
        plane.call("DELETE", policy_path(namespace, "p7"))
        until(lambda: "p7" not in names(copy, namespace), "the deletion is seen")
        assert dict(api.requests) == {("list", "200"): 1, ("watch", "200"): 1}
        assert reflector.problem is None


def test_a_version_that_is_too_old_is_answered_by_one_list(plane: ControlPlane, namespace: str, api: Api) -> None:
    add_policy(plane, namespace, "one")
    copy = Copy()
    with closing(Reflector(api, PATH, {}, copy.take)) as reflector:
        reflector._version = "1"  # as after a long sleep
        reflector.start()
        until(lambda: "one" in names(copy, namespace), "everything is listed anew")
        assert reflector.relists == 1


def test_the_server_is_away_and_comes_back(plane: ControlPlane, namespace: str, api: Api) -> None:
    add_policy(plane, namespace, "one")
    copy = Copy()
    with closing(Reflector(api, PATH, {}, copy.take)) as reflector:
        reflector.start()
        until(lambda: names(copy, namespace) == {"one"}, "what there is is seen")
        stop_server(plane)
        try:
            until(lambda: reflector.problem, "that it is away is said")
            assert "what was found stays" in str(reflector.problem)
            assert names(copy, namespace) == {"one"}
        finally:
            plane.start_server()
        add_policy(plane, namespace, "two")
        until(lambda: names(copy, namespace) == {"one", "two"}, "what has changed since is seen")
        until(lambda: reflector.problem is None, "that it is back is seen")
        assert reflector.relists <= 2  # a server that starts anew may have forgotten the version


def test_a_long_list_is_read_in_pages(plane: ControlPlane, namespace: str, api: Api) -> None:
    for number in range(300):
        plane.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"c{number}"}})
    objects, version = api.list(f"/api/v1/namespaces/{namespace}/configmaps", {"labelSelector": "!k8s"})
    assert len({one["metadata"]["name"] for one in objects}) >= 300
    assert version
    assert api.requests["list", "200"] == 3


def test_what_is_not_older_than_a_version_is_listed_as_a_whole(plane: ControlPlane, namespace: str, api: Api) -> None:
    for number in range(PAGE + 1):
        plane.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"c{number}"}})
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    objects, version = api.list(path, {})
    before = api.requests["list", "200"]
    again, newer = api.list(path, not_older_than(version))
    assert (len(again), int(newer) >= int(version)) == (len(objects), True)
    assert api.requests["list", "200"] == before + 1
    with pytest.raises(ApiError) as refused:
        api.list(path, not_older_than(str(10**15)))
    assert has_no_version(refused.value)


def test_a_refusal_is_one_line(plane: ControlPlane, access: Access, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    stranger.write_text("nobody")
    with closing(Api(Access(access.server, access.ca, stranger))) as api, pytest.raises(ApiError) as refused:
        api.list(PATH, {})
    assert (str(refused.value), refused.value.status) == (f"GET {PATH}: 401 Unauthorized", 401)


def test_a_server_that_is_not_there_is_one_line(access: Access) -> None:
    with closing(Api(Access("https://127.0.0.1:1", access.ca))) as api, pytest.raises(ApiError) as refused:
        api.list(PATH, {})
    assert (str(refused.value), refused.value.status) == ("https://127.0.0.1:1: Connection refused", 0)


def test_a_pod_does_not_become_a_mirror(plane: ControlPlane, namespace: str, api: Api) -> None:
    """Its author may write the hash, which therefore names no group."""
    admit_pods(plane, namespace)
    start_pod(plane, namespace, "peer0", "node", labels={"qioi.io/role": "peer"})
    path = f"{pods_path(namespace)}/peer0"
    change = {"metadata": {"annotations": {"kubernetes.io/config.hash": "a/../b"}}}
    made = read_pod(api.request("patch", "PATCH", path, {}, change, STRATEGIC))
    assert made is not None
    assert made.group_uid == made.uid
    change = {"metadata": {"annotations": {MIRROR_ANNOTATION: "a"}}}
    with pytest.raises(ApiError, match="may not add mirror pod annotation"):
        api.request("patch", "PATCH", path, {}, change, STRATEGIC)


def test_a_node_sees_its_own_pods_as_policies_speak_of_them(
    plane: ControlPlane, namespace: str, api: Api, tmp_path: Path
) -> None:
    admit_pods(plane, namespace)
    (tmp_path / "kubepods").mkdir()
    with closing(Cluster(api, f"{namespace}-here", tmp_path, "/var/log/pods")) as cluster:
        cluster.start()
        start_pod(plane, namespace, "peer0", f"{namespace}-here", labels={"qioi.io/role": "peer"})
        start_pod(plane, namespace, "peer1", f"{namespace}-there", labels={"qioi.io/role": "peer"})
        start_pod(plane, namespace, "web", f"{namespace}-here")
        assert cluster.view().components == ()
        add_policy(plane, namespace, "red", threshold=50)
        until(lambda: cluster.view().components, "the pod is subject to the policy")
        view = cluster.view()
        assert [one.name for one in view.components] == [f"{namespace}/peer0"]
        assert view.components[0].cgroup.startswith("kubepods/burstable/pod")
        assert view.components[0].channels == (f"{namespace}/red",)
        assert view.policies[f"{namespace}/red"].threshold == 50
        assert cluster.view() is view
        change_policy(plane, namespace, "red", threshold=80)
        until(lambda: cluster.view().policies[f"{namespace}/red"].threshold == 80, "the change is seen")
        plane.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/peer0", {"gracePeriodSeconds": 0})
        until(lambda: not cluster.view().components, "the pod's end is seen")
        plane.call("DELETE", policy_path(namespace, "red"))
        until(lambda: f"{namespace}/red" not in cluster.view().policies, "the policy's end is seen")


def sight(plane: ControlPlane, namespace: str, node: str, tps: float) -> Sight:
    raw = plane.call("GET", policy_path(namespace, "red"))
    key = f"{namespace}/red"
    state = ComponentState(f"{namespace}/peer-{node}", "peer", "g", share=2048, original=1024, waiting_share=0.25)
    rows = (Row(f"peer-{node}", "peer", "Burstable", "pod", state),)
    alive = frozenset(one["name"] for one in raw.get("status", {}).get("nodes", ()))
    channel = ChannelState(key, "adaptive", 80.0, tps, 0.3, 5)
    return Sight(node, "files", judge([raw])[0], channel, rows, True, SETTLED, alive=alive)


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


def test_what_may_be_outdated_is_not_looked_at(
    plane: ControlPlane, namespace: str, access: Access, tmp_path: Path
) -> None:
    add_policy(plane, namespace, "red")
    admit_pods(plane, namespace)
    start_pod(plane, namespace, "peer0", namespace, labels={"qioi.io/role": "peer"})
    with closing(Api(access)) as api, closing(Cluster(api, namespace, tmp_path, "/var/log/pods")) as cluster:
        cluster.start()

        def watched() -> bool:
            looks = cluster.view().looks
            return looks is not None and looks.watched == {namespace} and looks.listed > 0

        until(watched, "its policies are watched, all others listed")
        stop_server(plane)
        try:
            until(lambda: cluster.view().looks is None, "the copy may be outdated")
        finally:
            plane.start_server()
        until(watched, "they are watched again")


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
