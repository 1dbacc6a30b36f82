"""The nodes of a lab's network, by what they do."""

from __future__ import annotations

from qioi.lab.network import Network
from qioi.model import Role


def named(network: Network, role: Role) -> tuple[str, ...]:
    """Names of the nodes with that role."""
    return tuple(node.name for node in network.nodes if node.role == role)
