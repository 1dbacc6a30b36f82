"""Objects at a real API server: policies and their kind, and pods as if a kubelet had started them."""

from __future__ import annotations

from typing import Any

from demo_k8s import MANIFESTS
from demo_k8s.control_plane import ControlPlane

CRD = MANIFESTS / "base" / "crd.yaml"
#: How a part of an object is written over (Kubernetes API concepts, "patches").
MERGE = "application/merge-patch+json"
_GROUP_VERSION = "qioi.io/v1alpha1"
_RESOURCE = "isolationpolicies"
#: What waits until the kind is served, after `kubectl`.
IS_SERVED = ("wait", "--for=condition=Established", f"crd/{_RESOURCE}.qioi.io", "--timeout=60s")


def install_kind(plane: ControlPlane) -> None:
    """Have an API server know policies."""
    plane.kubectl("apply", "-f", CRD)
    plane.kubectl(*IS_SERVED)


def policies_path(namespace: str | None = None) -> str:
    """Name where a namespace's policies are, or all."""
    within = f"/namespaces/{namespace}" if namespace is not None else ""
    return f"/apis/{_GROUP_VERSION}{within}/{_RESOURCE}"


def policy_path(namespace: str, name: str) -> str:
    """Name where a policy is."""
    return f"{policies_path(namespace)}/{name}"


def policy(name: str, spec: object) -> dict[str, Any]:
    """Make one as an object; the spec may be a wrong one."""
    return {"apiVersion": _GROUP_VERSION, "kind": "IsolationPolicy", "metadata": {"name": name}, "spec": spec}


def add_policy(plane: ControlPlane, namespace: str, name: str, **spec: Any) -> None:
    """Make one, for the channel of its own name where the spec names none."""
    plane.call("POST", policies_path(namespace), policy(name, {"channel": name, **spec}))


def pods_path(namespace: str) -> str:
    """Name where a namespace's pods are."""
    return f"/api/v1/namespaces/{namespace}/pods"


def admit_pods(plane: ControlPlane, namespace: str) -> None:
    """Make the service account that a namespace's pods run as; no controller does it here."""
    plane.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})


def start_pod(
    plane: ControlPlane, namespace: str, name: str, node: str, *, labels: dict[str, str] | None = None,
    resources: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Make a pod and write its status by hand; give it as it was made. Its container requests 100m unless said.

    The status tells the container's resources: without, the server takes the node for one that cannot resize.
    """
    resources = resources or {"requests": {"cpu": "100m"}}
    container = {"name": "main", "image": "none", "resources": resources}
    made = plane.call("POST", pods_path(namespace), {
        "metadata": {"name": name, "labels": labels or {}}, "spec": {"nodeName": node, "containers": [container]},
    })  # fmt: skip
    status = {"name": "main", "ready": True, "restartCount": 0, "image": "none", "imageID": "",
              "containerID": container_id(name), "state": {"running": {}}, "resources": resources}  # fmt: skip
    write_pod_status(plane, namespace, name, phase="Running", containerStatuses=[status])
    return dict(made)


def container_id(pod: str) -> str:
    """Name the container of a pod that :func:`start_pod` made."""
    return f"containerd://{pod:0<64}"


def write_pod_status(plane: ControlPlane, namespace: str, name: str, **status: Any) -> None:
    """Write a part of a pod's status over."""
    plane.call("PATCH", f"{pods_path(namespace)}/{name}/status", {"status": status}, kind=MERGE)
