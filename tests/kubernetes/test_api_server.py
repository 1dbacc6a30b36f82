"""The copies of resources, against a real API server that comes and goes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from demo_k8s.control_plane import PATIENCE, ControlPlane, until
from demo_k8s.objects import add_policy, admit_pods, pods_path, policy_path, start_pod
from k8s_node import stop_server
from k8s_policy_objects import change_policy

from qioi.kubernetes.client import PAGE, STRATEGIC, Access, Api, ApiError
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.pods import MIRROR_ANNOTATION, read_pod
from qioi.kubernetes.policies import PATH, slim_policy
from qioi.kubernetes.reflector import Reflector, has_no_version, not_older_than

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
