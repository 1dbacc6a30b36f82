"""When a network can be used: every node serves, and on every channel transactions can be ordered."""

from __future__ import annotations

import http.client
import os
import re
import socket
from collections.abc import Callable

from qioi.lab.network import Network, Node
from qioi.model import Role
from qioi.processes.errors import LabError

#: Seconds that a node has to answer: one that is alive may wait long for a CPU.
PATIENCE = 10.0
#: Seconds that a node has to answer where every node is asked once: the waits for nodes that hang add up.
GLANCE = 2.0
_CONNECTED = re.compile(r'^qioi_orderer_(?:kafka|sequencer)_connected\{channel="([^"]+)"\} 1$', re.MULTILINE)
_LEADS = re.compile(r'^consensus_etcdraft_is_leader\{channel="([^"]+)"\} 1$', re.MULTILINE)


def serves(node: Node, patience: float = PATIENCE) -> bool:
    """Whether a node answers within ``patience`` seconds: its health check, or, where it has none, its port."""
    if node.operations:
        return ask(node.operations, "/healthz", patience) is not None
    host, _, port = node.address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=patience):
            return True
    except OSError:
        return False


def leaderless(network: Network, patience: Callable[[], float] = lambda: PATIENCE) -> tuple[str, ...]:
    """Name the channels on which no transaction can be ordered.

    Raft needs a leader. Kafka and the sequencer have none, but every orderer must have read their log. Solo needs
    neither. ``patience`` says before each orderer is asked how many seconds it has to answer.
    """
    if network.consenter == "solo":
        return ()
    apart = network.consenter in ("kafka", "sequencer")
    pattern = _CONNECTED if apart else _LEADS
    orderers = [node for node in network.nodes if node.role is Role.ORDERER]
    able = [set(pattern.findall(ask(node.operations, "/metrics", patience()) or "")) for node in orderers]
    fit = set.intersection(*able) if apart else set.union(*able)
    return tuple(channel for channel in network.channels if channel not in fit)


def follower(network: Network) -> str:
    """Name the first orderer after a leader that leads no channel itself. LabError if all lead one, or there is none.

    PBFT's members beyond a quorum, the last before the leader, do not vote while the others decide: what befalls one of
    these says little.
    """
    orderers = [node for node in network.nodes if node.role is Role.ORDERER]
    leads = [
        None if (page := ask(node.operations, "/metrics")) is None else bool(_LEADS.search(page)) for node in orderers
    ]
    after = leads.index(True) + 1 if True in leads else 0
    for node, leading in zip(orderers[after:] + orderers[:after], leads[after:] + leads[:after], strict=True):
        if leading is False:
            return node.name
    raise LabError("no orderer answers that leads no channel")


def ask(address: str, path: str, patience: float = PATIENCE) -> str | None:
    """Get a page of a node's operations endpoint; ``None`` unless it answers with 200 within ``patience`` seconds."""
    connection = http.client.HTTPConnection(address, timeout=patience)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read().decode(errors="replace") if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def refuse_busy_ports(network: Network) -> None:
    """LabError if a node's address has no such port, or another program's answer there would pass for the node's."""
    for node in network.nodes:
        for address in filter(None, (node.address, node.operations)):
            host, _, port = address.rpartition(":")
            try:
                socket.create_server((host, int(port))).close()
            except OverflowError:
                why = f"{node.name} would need port {port}, 65535 is the last; `--base-port` moves all ports"
                raise LabError(why) from None
            except OSError as error:
                why = os.strerror(error.errno or 0)
                raise LabError(f"{node.name} cannot have {address}: {why}; `--base-port` moves all ports") from error
