"""What a component of the ledger is: its role, its control group, and where its commits are read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from qioi.model.owner import Owner


class Role(StrEnum):
    """What a component is to the ledger.

    ``SUPPORT`` is what a peer waits for: its CouchDB, a gateway application, a sidecar. It is raised with those that
    wait for it. ``REPLICA`` is a node of a database. ``CLIENT`` only uses the ledger and is never raised. Neither is
    foreign work.
    """

    PEER = "peer"
    ORDERER = "orderer"
    CHAINCODE = "chaincode"
    BROKER = "broker"
    SUPPORT = "support"
    REPLICA = "replica"
    CLIENT = "client"


class Credentials(Struct, frozen=True):
    """PEM files for a TLS connection: trusted authorities (``None``: the system's), our certificate and its key."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


#: The system's authorities are trusted, and no certificate is shown.
ANYBODY = Credentials()


@dataclass(frozen=True, slots=True)
class Component:
    """One process group of the ledger with a cgroup of its own.

    ``cgroup`` is the group's path below the CPU controller's mount, without a leading slash.
    ``channels`` are the channels that it serves; empty means every channel.
    ``log`` is the file its commits are read from (peers only), ``log_format`` how that file wraps lines.
    ``metrics_url`` is the address of its Prometheus metrics, a second source of commits, ``metrics_tls`` the
    credentials for it if it is https.
    ``owner`` names who keeps a record of the group's share (a container engine), if anybody does.
    ``organisation`` is whose component it is, such as a Fabric MSP's id; empty if that is not known.
    """

    name: str
    role: Role
    cgroup: str
    channels: tuple[str, ...] = ()
    log: str | None = None
    log_format: str = "plain"
    owner: Owner | None = None
    metrics_url: str | None = None
    metrics_tls: Credentials = ANYBODY
    organisation: str = ""
