"""The files and environments of a real Hyperledger Fabric network on loopback.

Sources: Fabric's sampleconfig/{core,orderer,configtx}.yaml, of which every key can be set by an environment variable
(CORE_… and ORDERER_…), and its documentation of cryptogen, configtxgen and chaincode as an external service.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from qioi.lab.options import LabOptions
from qioi.lab.systems.fabric_shape import DOMAIN, ORDERERS, Orderer, Peer, Shape, local

Document = dict[str, Any]
#: Transactions that a gateway may have under way. Fabric's own bound of 500 would throttle a load of the lab's size.
GATEWAY_LIMIT = 20_000


def crypto_config(options: LabOptions) -> Document:
    """Give cryptogen's input: the same names and folders as the bundled ledger's."""
    hosts = ["localhost", "127.0.0.1"]
    orderers = [{"Hostname": f"orderer{number + 1}", "SANS": hosts} for number in range(options.orderers)]
    return {
        "OrdererOrgs": [{"Name": "Orderer", "Domain": DOMAIN, "EnableNodeOUs": True, "Specs": orderers}],
        "PeerOrgs": [
            {
                "Name": f"Org{org}",
                "Domain": f"org{org}.{DOMAIN}",
                "EnableNodeOUs": True,
                "Template": {"Count": options.peers_per_org, "SANS": hosts},
                "Users": {"Count": 1},
            }
            for org in range(1, options.orgs + 1)
        ],
    }


def configtx(shape: Shape, directory: Path) -> Document:
    """Give configtxgen's input: one profile ``Lab``."""
    orderer_org: Document = {
        "Name": "OrdererMSP",
        "ID": "OrdererMSP",
        "MSPDir": str(directory / ORDERERS / "msp"),
        "Policies": signed(Readers="OR('OrdererMSP.member')", Writers="OR('OrdererMSP.member')",
                           Admins="OR('OrdererMSP.admin')"),
        "OrdererEndpoints": [orderer.address for orderer in shape.orderers],
    }  # fmt: skip
    general = implied(Readers="ANY Readers", Writers="ANY Writers", Admins="MAJORITY Admins")
    ordering = {
        "OrdererType": "etcdraft",
        "BatchTimeout": shape.settings["--batch-timeout"],
        "BatchSize": {
            "MaxMessageCount": int(shape.settings["--max-message-count"]),
            "AbsoluteMaxBytes": "10 MB",
            "PreferredMaxBytes": "2 MB",
        },
        "EtcdRaft": {
            "Consenters": [consenter(orderer, directory) for orderer in shape.orderers],
            "Options": {
                "TickInterval": "500ms",
                "ElectionTick": 10,
                "HeartbeatTick": 1,
                "MaxInflightBlocks": 5,
                "SnapshotIntervalSize": "16 MB",
            },
        },
        "Organizations": [orderer_org],
        "Policies": {**general, **implied(BlockValidation="ANY Writers")},
        "Capabilities": {"V2_0": True},
    }
    endorsing = implied(LifecycleEndorsement="MAJORITY Endorsement", Endorsement="MAJORITY Endorsement")
    application = {
        "Organizations": [peer_org(peer, directory) for peer in shape.organisations],
        "Policies": {**general, **endorsing},
        "Capabilities": {"V2_5": True},
    }
    profile = {
        "Policies": general,
        "Capabilities": {"V2_0": True},
        "Orderer": ordering,
        "Application": application,
    }
    return {"Profiles": {"Lab": profile}}


def consenter(orderer: Orderer, directory: Path) -> Document:
    """Give one member of the Raft cluster."""
    certificate = str(directory / orderer.keys / "tls/server.crt")
    return {
        "Host": "127.0.0.1",
        "Port": orderer.port,
        "ClientTLSCert": certificate,
        "ServerTLSCert": certificate,
    }


def peer_org(peer: Peer, directory: Path) -> Document:
    """Give an organisation by its first peer."""
    msp = peer.msp_id
    return {
        "Name": msp,
        "ID": msp,
        "MSPDir": str(directory / peer.organisation / "msp"),
        "Policies": signed(
            Readers=f"OR('{msp}.admin','{msp}.peer','{msp}.client')",
            Writers=f"OR('{msp}.admin','{msp}.client')",
            Admins=f"OR('{msp}.admin')",
            Endorsement=f"OR('{msp}.peer')",
        ),
        "AnchorPeers": [{"Host": "127.0.0.1", "Port": peer.port}],
    }


def signed(**rules: str) -> Document:
    """Give policies over signatures."""
    return {name: {"Type": "Signature", "Rule": rule} for name, rule in rules.items()}


def implied(**rules: str) -> Document:
    """Give policies over the organisations' own policies."""
    return {name: {"Type": "ImplicitMeta", "Rule": rule} for name, rule in rules.items()}


def orderer_environment(orderer: Orderer, directory: Path) -> dict[str, str]:
    """Give what differs from orderer.yaml."""
    keys, data = directory / orderer.keys, directory / "data" / orderer.name
    return {
        "FABRIC_CFG_PATH": str(directory / "config"),
        "ORDERER_GENERAL_LISTENADDRESS": "127.0.0.1",
        "ORDERER_GENERAL_LISTENPORT": str(orderer.port),
        "ORDERER_GENERAL_LOCALMSPID": "OrdererMSP",
        "ORDERER_GENERAL_LOCALMSPDIR": str(keys / "msp"),
        "ORDERER_GENERAL_BOOTSTRAPMETHOD": "none",
        "ORDERER_GENERAL_TLS_ENABLED": "true",
        "ORDERER_GENERAL_TLS_PRIVATEKEY": str(keys / "tls/server.key"),
        "ORDERER_GENERAL_TLS_CERTIFICATE": str(keys / "tls/server.crt"),
        "ORDERER_GENERAL_TLS_ROOTCAS": f"[{keys / 'tls/ca.crt'}]",
        "ORDERER_GENERAL_CLUSTER_CLIENTCERTIFICATE": str(keys / "tls/server.crt"),
        "ORDERER_GENERAL_CLUSTER_CLIENTPRIVATEKEY": str(keys / "tls/server.key"),
        "ORDERER_GENERAL_CLUSTER_ROOTCAS": f"[{keys / 'tls/ca.crt'}]",
        "ORDERER_CHANNELPARTICIPATION_ENABLED": "true",
        "ORDERER_ADMIN_LISTENADDRESS": local(orderer.port + 2),
        "ORDERER_ADMIN_TLS_ENABLED": "false",
        "ORDERER_FILELEDGER_LOCATION": str(data),
        "ORDERER_CONSENSUS_WALDIR": str(data / "etcdraft/wal"),
        "ORDERER_CONSENSUS_SNAPDIR": str(data / "etcdraft/snapshot"),
        "ORDERER_OPERATIONS_LISTENADDRESS": local(orderer.port + 1),
        "ORDERER_METRICS_PROVIDER": "prometheus",
    }


def peer_environment(peer: Peer, shape: Shape, directory: Path) -> dict[str, str]:
    """Give what differs from core.yaml. Each contract's address on this peer goes to the builder by its name."""
    keys, data = directory / peer.keys, directory / "data" / peer.name
    first = next(one for one in shape.organisations if one.org == peer.org)
    contracts = {name: local(shape.chaincode_port(peer, name)) for name in shape.chaincodes}
    return {
        "FABRIC_CFG_PATH": str(directory / "config"),
        "CORE_PEER_ID": peer.name,
        "CORE_PEER_LOCALMSPID": peer.msp_id,
        "CORE_PEER_MSPCONFIGPATH": str(keys / "msp"),
        "CORE_PEER_ADDRESS": peer.address,
        "CORE_PEER_LISTENADDRESS": peer.address,
        "CORE_PEER_CHAINCODELISTENADDRESS": local(peer.port + 2),
        "CORE_PEER_CHAINCODEADDRESS": local(peer.port + 2),
        "CORE_PEER_GOSSIP_BOOTSTRAP": first.address,
        "CORE_PEER_GOSSIP_EXTERNALENDPOINT": peer.address,
        "CORE_PEER_GOSSIP_ENDPOINT": peer.address,
        "CORE_PEER_GOSSIP_USELEADERELECTION": "false",
        "CORE_PEER_GOSSIP_ORGLEADER": "true",
        "CORE_PEER_GOSSIP_STATE_ENABLED": "false",
        "CORE_PEER_TLS_ENABLED": "true",
        "CORE_PEER_TLS_CERT_FILE": str(keys / "tls/server.crt"),
        "CORE_PEER_TLS_KEY_FILE": str(keys / "tls/server.key"),
        "CORE_PEER_TLS_ROOTCERT_FILE": str(keys / "tls/ca.crt"),
        "CORE_PEER_FILESYSTEMPATH": str(data),
        "CORE_LEDGER_SNAPSHOTS_ROOTDIR": str(data / "snapshots"),
        "CORE_LEDGER_STATE_STATEDATABASE": "goleveldb",
        "CORE_PEER_LIMITS_CONCURRENCY_GATEWAYSERVICE": str(GATEWAY_LIMIT),
        "CORE_OPERATIONS_LISTENADDRESS": local(peer.port + 1),
        "CORE_METRICS_PROVIDER": "prometheus",
        "CHAINCODE_AS_A_SERVICE_BUILDER_CONFIG": json.dumps(contracts),
    }


def admin_environment(peer: Peer, directory: Path) -> dict[str, str]:
    """Give an environment in which the command ``peer`` acts on a peer as its organisation's administrator."""
    admin = f"{peer.organisation}/users/Admin@org{peer.org}.{DOMAIN}/msp"
    return {
        "FABRIC_CFG_PATH": str(directory / "config"),
        "FABRIC_LOGGING_SPEC": "WARN",
        "CORE_PEER_LOCALMSPID": peer.msp_id,
        "CORE_PEER_MSPCONFIGPATH": str(directory / admin),
        "CORE_PEER_ADDRESS": peer.address,
        "CORE_PEER_TLS_ENABLED": "true",
        "CORE_PEER_TLS_ROOTCERT_FILE": str(directory / peer.tls_ca),
    }


def write_package(chaincode: str, path: Path) -> str:
    """Write a contract's package, whose address each peer's builder fills in; give its package id."""
    label = f"{chaincode}_1.0"
    connection = {"address": f"{{{{.{chaincode}}}}}", "dial_timeout": "10s", "tls_required": False}
    code = archive([("connection.json", json.dumps(connection).encode())])
    metadata = json.dumps({"type": "ccaas", "label": label}).encode()
    package = archive([("metadata.json", metadata), ("code.tar.gz", code)])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(package)
    return f"{label}:{hashlib.sha256(package).hexdigest()}"


def archive(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Make a tar.gz that depends on its content only."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def network_document(shape: Shape, channels: Sequence[str]) -> Document:
    """Describe the network as ``qioi-ledger init`` does, so that the load client and Caliper can drive it."""
    orderers = [
        node(one.name, "orderer", "OrdererMSP", one.address, operations=local(one.port + 1)) for one in shape.orderers
    ]
    chaincodes = [
        node(
            f"cc-{name}-{peer.name}", "chaincode", peer.msp_id, local(shape.chaincode_port(peer, name)), chaincode=name
        )
        for peer in shape.peers
        for name in shape.chaincodes
    ]
    peers = [node(one.name, "peer", one.msp_id, one.address, operations=local(one.port + 1)) for one in shape.peers]
    users = {peer.msp_id: (f"User1@org{peer.org}.{DOMAIN}", peer.organisation) for peer in shape.organisations}
    return {
        "channels": list(channels),
        "mode": "block",
        "consenter": "raft",
        "tls": True,
        "nodes": [*orderers, *chaincodes, *peers],
        "clients": [
            {
                "msp_id": msp,
                "name": user,
                "cert": f"{folder}/users/{user}/msp/signcerts/{user}-cert.pem",
                "key": f"{folder}/users/{user}/msp/keystore/priv_sk",
            }
            for msp, (user, folder) in users.items()
        ],
        "tls_ca": {
            "OrdererMSP": f"{ORDERERS}/tlsca/tlsca.{DOMAIN}-cert.pem",
            **{peer.msp_id: peer.tls_ca for peer in shape.organisations},
        },
    }


def node(name: str, role: str, msp_id: str, address: str, **more: str) -> Document:
    """Describe one process."""
    return {
        "name": name,
        "role": role,
        "msp_id": msp_id,
        "address": address,
        "log": f"log/{name}.log",
        "args": [],
        **more,
    }
