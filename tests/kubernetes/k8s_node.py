"""What tests do with a node: they run pods on it, look at their groups and records, and end its programs."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from demo_k8s import node
from demo_k8s.control_plane import ControlPlane
from demo_k8s.host import CPU
from demo_k8s.node import WORK


class Pods:
    """Pods of one node, on its network, as the API server has them."""

    plane: ControlPlane
    name: str

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


class Node(Pods, node.Node):
    """A cluster of one node, or one more node of it, as tests use it."""

    def stop_kubelet(self) -> None:
        """End the kubelet; its pods go on."""
        self.processes.stop("kubelet")

    def stop_containerd(self, number: int = signal.SIGTERM) -> None:
        """Containers go on: each has a shim of its own."""
        self.processes.stop("containerd", number)

    def record(self, container: str) -> int:
        """Give the shares that containerd itself has on record of a container."""
        spec = json.loads(self._ctr("containers", "info", container))["Spec"]
        return int(spec["linux"]["resources"]["cpu"]["shares"])

    @property
    def _pods(self) -> str:
        """The group of all its pods."""
        return f"{self.root}/kubepods".lstrip("/")

    def groups(self, name: str, namespace: str = "default") -> tuple[Path, Path]:
        """Give the pod's and its first container's control groups, as they are found on the disk."""
        pod = self.pod(name, namespace)
        (group,) = CPU.glob(f"{self._pods}/**/pod{pod['metadata']['uid']}")
        first = pod["spec"]["containers"][0]["name"]
        (status,) = (one for one in pod["status"]["containerStatuses"] if one["name"] == first)
        return group, group / status["containerID"].partition("://")[2]


def stop_server(plane: ControlPlane) -> None:
    """Kill the API server."""
    plane.processes.stop("apiserver", signal.SIGKILL)
