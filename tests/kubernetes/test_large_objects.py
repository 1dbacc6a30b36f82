"""Large objects at a real API server: lists and changes of them are read in part, and the others go on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest
from demo_k8s.control_plane import ControlPlane, until
from demo_k8s.objects import MERGE, admit_pods, pods_path, start_pod

import qioi.kubernetes.client
from qioi.kubernetes.client import Api
from qioi.kubernetes.reflector import Reflector

pytestmark = pytest.mark.slow


def test_a_list_of_large_objects_is_read_in_smaller_pages(plane: ControlPlane, namespace: str, api: Api) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(10):
        plane.call("POST", path, {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 1_000_000}})
    objects, version = api.list(path, {"resourceVersion": "0"}, lambda one: one["metadata"]["name"])
    assert objects == [f"c{number}" for number in range(10)]
    with closing(api.watch(path, {"resourceVersion": version, "timeoutSeconds": "1"})) as watch:
        assert list(watch.events()) == []


def test_a_pod_that_is_too_large_leaves_the_others(
    plane: ControlPlane, namespace: str, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(qioi.kubernetes.client, "MAX_ANSWER", 1024 * 1024)
    admit_pods(plane, namespace)
    start_pod(plane, namespace, "a", "node")
    env = [{"name": "E", "value": "x" * 1_300_000}]
    large = {"metadata": {"name": "b"}, "spec": {"containers": [{"name": "main", "image": "none", "env": env}]}}
    plane.call("POST", pods_path(namespace), large)
    # The first list is of what the server has at hand, which is a little behind.
    at_hand = f"{pods_path(namespace)}?resourceVersion=0"
    until(lambda: len(plane.call("GET", at_hand)["items"]) == 2, "both are at hand")
    said: list[Mapping[str, Any]] = []

    def names() -> set[str]:
        return {one["metadata"]["name"] for one in said[-1].values()} if said else set()

    with closing(Reflector(api, pods_path(namespace), {}, said.append)) as reflector:
        reflector.start()
        until(lambda: names() == {"a"}, "the other pod is listed")
        assert f"{namespace}/b has more than 1 MB: left out" in caplog.text
        change = {"metadata": {"labels": {"c": "d"}}}
        plane.call("PATCH", f"{pods_path(namespace)}/b", change, kind=MERGE)
        until(lambda: reflector.relists == 2, "its change is not read")
        start_pod(plane, namespace, "c", "node")
        until(lambda: names() == {"a", "c"}, "others are seen")
        plane.call("DELETE", f"{pods_path(namespace)}/b", {"gracePeriodSeconds": 0})
        until(lambda: reflector.relists == 3, "its end is not read")
        until(lambda: reflector.problem is None, "that it is listed is said")  # a moment after it is counted
