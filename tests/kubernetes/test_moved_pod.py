"""A pod that is made anew on another node while its first one is cut off, in a policy's status at a real API server."""

from __future__ import annotations

import dataclasses

import pytest
from demo_k8s.control_plane import ControlPlane
from demo_k8s.objects import add_policy, policy_path
from k8s_policy_objects import policy_status, sight

from qioi.kubernetes.client import Api
from qioi.kubernetes.policies import judge
from qioi.kubernetes.reporter import manager_of
from qioi.kubernetes.reports import body, document, words

pytestmark = pytest.mark.slow


def test_a_node_that_a_pod_has_left_again_can_take_its_entry_back(
    plane: ControlPlane, namespace: str, api: Api
) -> None:
    """The server refused each status of that node, until the first node counted as lost."""
    add_policy(plane, namespace, "red")
    path = policy_path(namespace, "red")
    for node in ("node-a", "node-b"):
        one = sight(plane, namespace, node, 70.0)
        one = dataclasses.replace(one, rows=(dataclasses.replace(one.rows[0], name="peer0"),))
        api.apply_status(path, body(one, 0.0), manager_of(node))
    (part,) = policy_status(plane, namespace, "red")["components"]
    assert (part["name"], part["node"]) == ("peer0", "node-b")
    (judged,) = judge([plane.call("GET", path)])
    api.apply_status(path, document(judged, {}), manager_of("node-b"))
    after = plane.call("GET", path)
    assert words(judge([after])[0]).keys() == {"node-a"}
    (part,) = after["status"]["components"]
    assert (part["name"], "node" in part) == ("peer0", False)
    api.apply_status(path, document(judged, {}), manager_of("node-a"))
    assert "components" not in policy_status(plane, namespace, "red")
