"""How a contract is approved and committed on a channel of Fabric's: Fabric documentation, chaincode lifecycle."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from qioi.lab.systems.fabric_shape import Peer, Shape
from qioi.processes.errors import LabError

#: Seconds that a peer has to hear of all approvals, or of a block, on a host that may be busy.
PATIENCE = 120.0
#: Fabric's own commands wait for a block for 30 s.
WAITING = ("--waitForEventTimeout", f"{PATIENCE:.0f}s")
LIFECYCLE = ("lifecycle", "chaincode")
#: Runs the command ``peer`` as the administrator of a peer's organisation, and gives what it prints. LabError.
RunPeer = Callable[[Peer, Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class Definition:
    """A contract on a channel: the flags that say what is agreed to, and its installed package."""

    flags: Sequence[str]
    package: str


def define(run: RunPeer, definition: Definition, shape: Shape, keys: Path) -> None:
    """Approve it for each organisation, and commit it once all peers can agree; it returns when every peer has it.

    The command that approves waits for one peer. Each peer endorses the commit by its own state, and refuses while it
    has not heard of its organisation's approval. ``keys`` is the folder that the peers' certificates are below.
    """
    for peer in shape.organisations:
        run(peer, [*LIFECYCLE, "approveformyorg", "--package-id", definition.package, *WAITING, *definition.flags])
    for peer in shape.peers:
        _wait_for_approvals(run, peer, definition)
    endorsers = [
        word
        for peer in shape.peers
        for word in ("--peerAddresses", peer.address, "--tlsRootCertFiles", str(keys / peer.tls_ca))
    ]
    run(shape.peers[0], [*LIFECYCLE, "commit", *WAITING, *definition.flags, *endorsers])


def _wait_for_approvals(run: RunPeer, peer: Peer, definition: Definition) -> None:
    question = [*LIFECYCLE, "checkcommitreadiness", "--output", "json", *definition.flags]
    deadline = time.monotonic() + PATIENCE
    while missing := unapproved(run(peer, question)):
        if time.monotonic() > deadline:
            raise LabError(f"{peer.name} has not heard that {', '.join(missing)} approved, after {PATIENCE:.0f} s")
        time.sleep(0.1)


def unapproved(answer: str) -> list[str]:
    """Name the organisations that have not approved, by a peer's answer (`checkcommitreadiness --output json`)."""
    return [name for name, approved in json.loads(answer)["approvals"].items() if not approved]
