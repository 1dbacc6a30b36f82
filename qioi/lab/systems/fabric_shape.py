"""The shape of a real Hyperledger Fabric network on loopback: nodes, ports, contracts and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qioi.lab.options import LabOptions
from qioi.processes.errors import LabError

DOMAIN = "example.com"
ORDERERS = f"crypto/ordererOrganizations/{DOMAIN}"
#: Flags of ``qioi-ledger init`` that Fabric has too, with their defaults.
SETTINGS = {"--max-message-count": "500", "--batch-timeout": "2s"}


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer; ``org`` counts from 1, ``number`` from 0 within it."""

    org: int
    number: int
    port: int

    @property
    def name(self) -> str:
        """Its name in the lab."""
        return f"peer{self.number}-org{self.org}"

    @property
    def msp_id(self) -> str:
        """Its organisation's MSP."""
        return f"Org{self.org}MSP"

    @property
    def organisation(self) -> str:
        """The folder of its organisation's keys."""
        return f"crypto/peerOrganizations/org{self.org}.{DOMAIN}"

    @property
    def keys(self) -> str:
        """The folder of its own keys."""
        return f"{self.organisation}/peers/peer{self.number}.org{self.org}.{DOMAIN}"

    @property
    def tls_ca(self) -> str:
        """The certificate of its organisation's TLS authority."""
        return f"{self.organisation}/tlsca/tlsca.org{self.org}.{DOMAIN}-cert.pem"

    @property
    def address(self) -> str:
        """Where clients and peers reach it; operations and chaincodes have the next two ports."""
        return local(self.port)


@dataclass(frozen=True, slots=True)
class Orderer:
    """One orderer; ``number`` counts from 1."""

    number: int
    port: int

    @property
    def name(self) -> str:
        """Its name in the lab."""
        return f"orderer{self.number}"

    @property
    def keys(self) -> str:
        """The folder of its own keys."""
        return f"{ORDERERS}/orderers/orderer{self.number}.{DOMAIN}"

    @property
    def address(self) -> str:
        """Where clients and orderers reach it; operations and channel participation have the next two ports."""
        return local(self.port)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the options come to: nodes with their ports, contracts with their endorsement policies, and settings."""

    orderers: tuple[Orderer, ...]
    peers: tuple[Peer, ...]
    chaincodes: Mapping[str, str]
    settings: Mapping[str, str]
    first_chaincode_port: int

    @property
    def organisations(self) -> tuple[Peer, ...]:
        """The first peer of each organisation."""
        return tuple(peer for peer in self.peers if peer.number == 0)

    def chaincode_port(self, peer: Peer, chaincode: str) -> int:
        """Give the port on which a peer's own process of a contract listens."""
        return (
            self.first_chaincode_port
            + self.peers.index(peer) * len(self.chaincodes)
            + [*self.chaincodes].index(chaincode)
        )


def local(port: int) -> str:
    """Spell a port of loopback."""
    return f"127.0.0.1:{port}"


def shape_of(options: LabOptions) -> Shape:
    """Lay nodes and ports out; LabError for what Fabric does not have."""
    if options.mode != "block":
        raise LabError(f"system fabric has no mode {options.mode!r}; accepted is block")
    if options.consenter != "raft":
        raise LabError(f"system fabric orders by raft here, not by {options.consenter!r}")
    port = options.base_port
    orderers = tuple(Orderer(index + 1, port + 3 * index) for index in range(options.orderers))
    port += 3 * len(orderers)
    places = [(org, number) for org in range(1, options.orgs + 1) for number in range(options.peers_per_org)]
    peers = tuple(Peer(org, number, port + 3 * index) for index, (org, number) in enumerate(places))
    chaincodes, settings = extras(options)
    return Shape(orderers, peers, chaincodes, settings, port + 3 * len(peers))


def extras(options: LabOptions) -> tuple[dict[str, str], dict[str, str]]:
    """Read contracts and settings from the further flags."""
    anyone = ",".join(f"'Org{org}MSP.peer'" for org in range(1, options.orgs + 1))
    chaincodes, settings = {}, dict(SETTINGS)
    for flag, value in zip(options.extra[::2], options.extra[1::2], strict=True):
        if flag == "--chaincode":
            name, _, policy = value.partition("=")
            chaincodes[name] = policy or f"OR({anyone})"
        elif flag in SETTINGS:
            settings[flag] = value
        else:
            raise LabError(f"system fabric has no setting {flag}; accepted are --chaincode, {', '.join(SETTINGS)}")
    return chaincodes or {"smallbank": f"OR({anyone})"}, settings
