"""Policies at a real API server as a test reads and changes them."""

from __future__ import annotations

from typing import Any

from demo_k8s.control_plane import ControlPlane
from demo_k8s.objects import MERGE, policy_path


def change_policy(plane: ControlPlane, namespace: str, name: str, **spec: Any) -> None:
    """Write a part of its spec over."""
    plane.call("PATCH", policy_path(namespace, name), {"spec": spec}, kind=MERGE)


def policy_status(plane: ControlPlane, namespace: str, name: str) -> dict[str, Any]:
    """Read its status; without any it is empty."""
    return dict(plane.call("GET", policy_path(namespace, name)).get("status", {}))


def write_policy_status(plane: ControlPlane, namespace: str, name: str, status: dict[str, Any]) -> None:
    """Write a part of its status over, as daemons do."""
    plane.call("PATCH", f"{policy_path(namespace, name)}/status", {"status": status}, kind=MERGE)
