"""Objects as the API gives them, with only what matters for a test."""

from __future__ import annotations

from typing import Any

ID = "ab" * 32


def pod_object(
    name: str = "peer0", namespace: str = "fab", *, labels: dict[str, str] | None = None,
    containers: tuple[str, ...] = ("main",), image: str = "registry/thing:1", running: bool = True, restarts: int = 0,
    qos: str = "Burstable", annotations: dict[str, str] | None = None, uid: str | None = None,
    sidecars: tuple[str, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """``sidecars`` are native ones; a pod that has any also has an init container that has ended."""
    state = {"running": {}} if running else {"waiting": {"reason": "CrashLoopBackOff"}}
    return {
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid or f"uid-of-{name}", "labels": labels or {},
            "annotations": annotations or {}, "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {
            "containers": [{"name": one, "image": image, "env": []} for one in containers],
            "initContainers": [
                *([{"name": "init", "image": image}] if sidecars else []),
                *(
                    {"name": one.rpartition("/")[2], "image": f"registry/{one}:1", "restartPolicy": "Always"}
                    for one in sidecars
                ),
            ],
        },
        "status": {
            "qosClass": qos,
            "containerStatuses": [
                {"name": one, "containerID": f"containerd://{ID}", "restartCount": restarts, "state": state}
                for one in containers
            ],
            "initContainerStatuses": [
                {"name": "init", "containerID": f"containerd://{ID}", "state": {"terminated": {}}},
                *(
                    {"name": one.rpartition("/")[2], "containerID": f"containerd://{ID}", "state": {"running": {}}}
                    for one in sidecars
                ),
            ],
        },
    }  # fmt: skip


def policy_object(
    name: str = "pay", namespace: str = "fab", generation: int = 1, age: int = 0, **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "generation": generation,
                     "creationTimestamp": f"2026-01-01T00:00:{59 - age:02}Z"},
        "spec": {"channel": "payments", **spec},
    }  # fmt: skip
