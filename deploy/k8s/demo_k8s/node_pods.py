"""Pods of the tests on one node of a cluster, as its API server has them."""

from __future__ import annotations

from typing import Any

from demo_k8s.control_plane import ControlPlane

#: The image of the tests' pods; its one program is demo_k8s.node's.
WORK = "qioi.test/work:1"


class Pods:
    """Pods of one node, on its network."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.plane = plane
        self.name = name

    def is_ready(self) -> bool:
        """Whether the node is ready."""
        for name in ("manager", "scheduler"):
            self.plane.processes.check(name)
        nodes = self.plane.call("GET", "/api/v1/nodes")["items"]
        conditions = (c for n in nodes if n["metadata"]["name"] == self.name for c in n["status"].get("conditions", ()))
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def run_pod(
        self, name: str, args: list[str], *, namespace: str = "default", labels: dict[str, str] | None = None,
        cpu: str | None = "100m", limit: str | None = None, beside: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Start a pod; ``beside`` are the arguments of a second container in it."""
        resources: dict[str, Any] = {"requests": {"cpu": cpu}} if cpu else {}
        if limit:
            resources = {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": limit, "memory": "64Mi"}}
        self.plane.call("POST", f"/api/v1/namespaces/{namespace}/pods", {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.name},
                "hostNetwork": True, "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
                "containers": [
                    {"name": one, "image": WORK, "imagePullPolicy": "Never", "args": its, "resources": resources}
                    for one, its in (("main", args), ("second", beside)) if its
                ],
            },
        })  # fmt: skip

    def pod(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """Read a pod from the API server."""
        found: dict[str, Any] = self.plane.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        return found

    def running(self, name: str, namespace: str = "default") -> bool:
        """Whether all containers of a pod run."""
        statuses = self.pod(name, namespace)["status"].get("containerStatuses") or ()
        return bool(statuses) and all("running" in one["state"] for one in statuses)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Delete a pod without a grace period."""
        self.plane.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})
