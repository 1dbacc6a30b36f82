"""A bundled network of real processes whose chaincodes are ordinary Node ones."""

from __future__ import annotations

from pathlib import Path

from bundled_network import BundledNetwork, Served

from qioi.lab.npm import install

CHAINCODE = Path(__file__).parent / "chaincode-node"
EITHER, BOTH = "OR('Org1MSP.peer','Org2MSP.peer')", "AND('Org1MSP.peer','Org2MSP.peer')"
CHANNELS = ("mychannel", "session")
POLICIES = {
    "smallbank": EITHER,
    "simple": EITHER,
    # Two organisations must agree: the gateway has to ask a peer of the other one.
    "marbles": BOTH,
    "tour": BOTH,
    # The ledger's own contract, which tour calls.
    "kv": EITHER,
}


def node_network(folder: Path) -> BundledNetwork:
    """Describe it; ``start`` brings it up. Peers and chaincodes know each other by certificate."""
    return BundledNetwork(folder, POLICIES, CHANNELS, ["--chaincode-tls"])


def start(network: BundledNetwork) -> None:
    """Install the Node chaincodes and bring everything up."""
    served = Served([str(CHAINCODE / "serve.sh")], {"NODE_PATH": str(install(CHAINCODE))})
    network.up(lambda name: None if name == "kv" else served)
