"""Daemons of two versions in one policy's status, against a real API server: neither keeps the other from writing."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.error import HTTPError

import pytest
from demo_k8s.control_plane import ControlPlane, until
from demo_k8s.objects import MERGE, add_policy, install_kind, policy_path
from k8s_policy_objects import policy_status, sight, write_policy_status

from qioi.kubernetes.client import Api
from qioi.kubernetes.reporter import Reporter, manager_of
from qioi.kubernetes.reports import body

pytestmark = pytest.mark.slow
KIND = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/isolationpolicies.qioi.io"


def set_most_interference(plane: ControlPlane, most: int) -> None:
    """Have the schema take up to this percentage."""
    kind = plane.call("GET", KIND)
    versions = kind["spec"]["versions"]
    status = versions[0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    status["nodes"]["items"]["properties"]["interference"]["maximum"] = most
    plane.call("PATCH", KIND, {"spec": {"versions": versions}}, kind=MERGE)


def takes(plane: ControlPlane, namespace: str, interference: int) -> bool:
    """Whether the server has taken over the schema that it was given."""
    try:
        write_policy_status(plane, namespace, "probe", {"nodes": [{"name": "n", "interference": interference}]})
    except HTTPError:
        return False
    return True


def test_an_entry_that_another_version_may_not_write_any_more_keeps_no_node_from_writing(
    plane: ControlPlane, namespace: str, api: Api
) -> None:
    for name in ("red", "probe"):
        add_policy(plane, namespace, name)
    path = policy_path(namespace, "red")
    try:
        set_most_interference(plane, 300)
        until(lambda: takes(plane, namespace, 200), "the older schema is served")
        old: dict[str, Any] = body(sight(plane, namespace, "node-a", 70.0), 0.0)
        old["status"]["nodes"][0]["interference"] = 200
        api.apply_status(path, old, manager_of("node-a"))
        set_most_interference(plane, 100)
        until(lambda: not takes(plane, namespace, 201), "the newer schema is served")
        with closing(Reporter(api, "node-b")) as reporter:
            reporter.offer({path: sight(plane, namespace, "node-b", 70.0)})
            reporter._round()
            assert reporter.problem is None
            nodes = {one["name"]: one for one in policy_status(plane, namespace, "red")["nodes"]}
            assert nodes.keys() == {"node-a", "node-b"}
            assert nodes["node-a"]["interference"] == 200
    finally:
        install_kind(plane)
