"""The policy that whole nodes are tested with, what its status says, and what shares a group has on such a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demo_k8s.objects import add_policy, policy_path
from k8s_guest import NodeOfV2
from k8s_node import Node
from k8s_policy_objects import policy_status

PAY = policy_path("default", "pay")


def write_policy(node: Node | NodeOfV2, name: str = "pay", **spec: Any) -> None:
    """By Algorithm 1 and far below the threshold, so that what is done does not hang on how busy the machine is."""
    out_of_reach = {"channel": "payments", "law": "proportional", "threshold": 10000}
    add_policy(node.plane, "default", name, **out_of_reach | spec)


def status(node: Node | NodeOfV2) -> dict[str, Any]:
    return policy_status(node.plane, "default", "pay")


def entry(node: Node | NodeOfV2) -> dict[str, Any]:
    """Give what the policy's status says of the only component."""
    return dict((status(node).get("components") or [{}])[0])


def chosen(node: Node | NodeOfV2) -> str:
    """Give the actuator that the policy's status says of the only node."""
    return str((status(node).get("nodes") or [{}])[0].get("actuator", ""))


def shares(group: Path) -> int:
    """Read a group's shares on cgroup v1."""
    return int((group / "cpu.shares").read_text())
