"""Where a lab's nodes run: starts them, each in a group of its own, and watches over them until all serve."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qioi.lab import readiness
from qioi.lab.network import Network, Node
from qioi.lab.readiness import serves
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.processes.launch import Running, last_lines, launch
from qioi.processes.tree import Program, Tree

#: Seconds that all nodes have to get ready; on a busy host they are slow. One that fails is noticed as soon as the
#: node that is being asked has answered, or had its time.
PATIENCE = 180.0

#: The roles without whose nodes nothing is ordered, or nothing is replicated.
ORDERING = (Role.ORDERER, Role.BROKER, Role.REPLICA)

Say = Callable[[str], None]


def silent(message: str) -> None:
    """Drop a progress message."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a lab comes up. ``timeout`` in seconds is for all nodes together to serve."""

    timeout: float = PATIENCE
    die_with_parent: bool = False
    say: Say = silent


class Site:
    """A lab's folder and groups, and what was started there by this process."""

    def __init__(self, directory: Path, tree: Tree, channels: Sequence[str], manner: Manner) -> None:
        self.directory, self._tree, self._channels, self._manner = directory, tree, channels, manner
        self.say = manner.say
        self.started: dict[str, tuple[Node, Running]] = {}

    def start(self, node: Node, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a node's program from the lab's folder."""
        program = Program(
            node.name,
            argv,
            log=node.log,
            cwd=self.directory,
            environment=environment or {},
            die_with_parent=self._manner.die_with_parent,
            folders=(self.directory,),
            role=node.role,
            channels=self._channels,
        )
        self.started[node.name] = (node, self._tree.start(program))

    def set_up(self, node: Node, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Running:
        """Start, in the node's group, a program that makes something ready for the node and then ends."""
        group = self._tree.group(node.name).create()
        return launch(
            argv,
            group,
            log=node.log,
            cwd=self.directory,
            environment=environment,
            die_with_parent=self._manner.die_with_parent,
        )

    def check(self, killed: Container[str] = ()) -> None:
        """Raise with the end of its log if a node that was started here, and is not ``killed``, has ended."""
        for node, process in self.started.values():
            if node.name not in killed and process.poll() is not None:
                status = process.returncode
                raise LabError(f"{node.name} ended (status {status}); its log ends:\n{last_lines(node.log)}")

    def wait_until_served(self, nodes: Sequence[Node]) -> None:
        """Wait until these nodes serve; LabError with the end of its log for the first that does not in time."""
        deadline = time.monotonic() + self._manner.timeout
        waiting = list(nodes)
        while waiting:
            for node in tuple(waiting):
                if serves(node, self._patience(deadline)):
                    waiting.remove(node)
                elif time.monotonic() >= deadline:
                    self._tree.save_logs()
                    raise LabError(
                        f"{node.name} does not serve after {self._manner.timeout:.0f} s; "
                        f"its log ends:\n{last_lines(node.log)}"
                    )
            time.sleep(0.05)

    def wait_until_usable(self, network: Network, lacking: Callable[[Network, Callable[[], float]], str]) -> None:
        """Wait until ``lacking`` finds nothing that keeps the network from being used; it says what that is."""
        deadline = time.monotonic() + self._manner.timeout
        while missing := lacking(network, lambda: self._patience(deadline)):
            if time.monotonic() >= deadline:
                self._tree.save_logs()
                raise LabError(f"{missing} after {self._manner.timeout:.0f} s\n{ends_of_logs(network)}")
            time.sleep(0.05)

    def wait_for_ends(self) -> None:
        """Wait for the end of everything that was started here, once it has been told to end."""
        for _, process in self.started.values():
            process.wait()
        self.started.clear()

    def _patience(self, deadline: float) -> float:
        """Give the seconds that the next node has to answer; raise if a node has ended."""
        self.check()
        return max(0.001, min(readiness.PATIENCE, deadline - time.monotonic()))


def ends_of_logs(network: Network) -> str:
    """Format the ends of the logs that tell why a network cannot be used; the logs go with the lab."""
    nodes = [node for node in network.nodes if node.role in ORDERING]
    return "\n".join(f"{node.name}'s log ends:\n{last_lines(node.log, 5)}" for node in nodes)
