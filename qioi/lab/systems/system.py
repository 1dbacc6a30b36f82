"""What the lab asks of a system under test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from qioi.lab.network import Network
from qioi.lab.site import Say, Site

#: Says, each time a node is to be asked, how many seconds it has to answer.
Patience = Callable[[], float]


class System(Protocol):
    """One system in one lab's folder. Its methods are called in this order, :meth:`install` before any lock is held."""

    #: Seconds that its nodes need to serve beyond those that a lab has.
    slow: float
    #: A folder outside of the lab's, which the lab removes before and after; its name ends as the lab's own do
    #: (qioi.lab.lab.digest_of), and the lab's marker has it for other processes.
    elsewhere: Path | None

    def install(self, say: Say) -> None:
        """Find the programs that it needs, or fetch them once; LabError in one line says what is missing."""

    def lay_out(self) -> Network:
        """Write keys and configurations into the lab's folder, and network.json, by which others find the nodes."""

    def start(self, site: Site, network: Network) -> None:
        """Start every node, and do what only a running system lets be done."""

    def lacking(self, network: Network, patience: Patience) -> str:
        """Say why the network cannot be used although every node serves; empty when it can."""
