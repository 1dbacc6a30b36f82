"""What a component of the ledger is: its role, its control group, and where its commits are read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from qioi.model.owner import Owner


class Role(StrEnum):
    """What a component is to the ledger.

    ``SUPPORT`` is what a peer waits for: its CouchDB, a gateway application, a sidecar. It is raised with those that
    wait for it. ``CLIENT`` only uses the ledger and is never raised. Neither is foreign work.
    """

    PEER = "peer"
    ORDERER = "orderer"
    CHAINCODE = "chaincode"
    BROKER = "broker"
    SUPPORT = "support"
    CLIENT = "client"


class Credentials(Struct, frozen=True):
    """Files of PEM for a TLS connection: whom to believe (``None``: the system's authorities), and who we are."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


#: The system's authorities are believed, and nothing is shown.
ANYBODY = Credentials()


@dataclass(frozen=True, slots=True)
class Component:
    """One process group of the ledger with a cgroup of its own.

    ``cgroup`` is the group's path below the CPU controller's mount, without a leading slash.
    ``channels`` are the channels that it serves; empty means every channel.
    ``log`` is the file its commits are read from (peers only), ``log_format`` how that file wraps lines.
    ``metrics_url`` is where its Prometheus metrics can be asked for, as a second source of commits, ``metrics_tls``
    what that takes where it is https.
    ``owner`` names who has the group's share on a record of its own (a container engine), if anybody has.
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
