"""Policies at a real API server as a test reads and changes them, and what a node says of one."""

from __future__ import annotations

from typing import Any

from demo_k8s.control_plane import ControlPlane
from demo_k8s.objects import MERGE, policy_path

from qioi.kubernetes.policies import judge
from qioi.kubernetes.reports import SETTLED, Row, Sight
from qioi.show.snapshot import ChannelState, ComponentState


def change_policy(plane: ControlPlane, namespace: str, name: str, **spec: Any) -> None:
    """Write a part of its spec over."""
    plane.call("PATCH", policy_path(namespace, name), {"spec": spec}, kind=MERGE)


def policy_status(plane: ControlPlane, namespace: str, name: str) -> dict[str, Any]:
    """Read its status; without any it is empty."""
    return dict(plane.call("GET", policy_path(namespace, name)).get("status", {}))


def write_policy_status(plane: ControlPlane, namespace: str, name: str, status: dict[str, Any]) -> None:
    """Write a part of its status over, as daemons do."""
    plane.call("PATCH", f"{policy_path(namespace, name)}/status", {"status": status}, kind=MERGE)


def sight(plane: ControlPlane, namespace: str, node: str, tps: float) -> Sight:
    """Give what a node with one peer says of the policy ``red``."""
    raw = plane.call("GET", policy_path(namespace, "red"))
    key = f"{namespace}/red"
    state = ComponentState(f"{namespace}/peer-{node}", "peer", "g", share=2048, original=1024, waiting_share=0.25)
    rows = (Row(f"peer-{node}", "peer", "Burstable", "pod", state),)
    alive = frozenset(one["name"] for one in raw.get("status", {}).get("nodes", ()))
    channel = ChannelState(key, "adaptive", 80.0, tps, 0.3, 5)
    return Sight(node, "files", judge([raw])[0], channel, rows, True, SETTLED, alive=alive)
