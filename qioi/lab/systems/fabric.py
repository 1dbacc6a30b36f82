"""Real Hyperledger Fabric, 2.5 or 3.x, from a folder of the user's binaries; the contracts are the bundled ones.

Fabric's peers reach each contract as a service (ccaas). Every peer has processes of its own for its contracts.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from qioi.lab.network import Network, find_binary, load_network
from qioi.lab.options import LabOptions
from qioi.lab.readiness import leaderless
from qioi.lab.site import Say, Site
from qioi.lab.systems import fabric_files as files
from qioi.lab.systems.fabric_contracts import Definition, define
from qioi.lab.systems.fabric_shape import DOMAIN, ORDERERS, Peer, local, shape_of
from qioi.lab.systems.system import Patience
from qioi.model import Role
from qioi.processes.errors import LabError

PROGRAMS = ("peer", "orderer", "configtxgen", "cryptogen", "osnadmin")
CONFIGS = ("core.yaml", "orderer.yaml")
BUILDER = ("build", "detect", "release")
FETCH = (
    "--binaries names a folder that holds hyperledger-fabric-linux-amd64-2.5.x.tar.gz (or 3.x) of "
    "https://github.com/hyperledger/fabric/releases, unpacked: bin/, config/ and builders/"
)
#: Seconds that one command of Fabric's may take: it waits for blocks, on a host that may be busy.
PATIENCE = 120.0


class FabricSystem:
    """Peers, Raft orderers and chaincodes, all with TLS but the way between a peer and its own chaincode."""

    #: Seconds that joining channels and approving contracts takes beyond the start.
    slow = 60.0
    elsewhere: Path | None = None

    def __init__(self, directory: Path, options: LabOptions) -> None:
        self._directory, self._options = directory, options
        self._shape = shape_of(options)

    def install(self, say: Say) -> None:
        """Check that the folder holds what a release archive does."""
        if self._options.runtime == "docker":
            raise LabError("system fabric runs with the runtime process only, not with docker")
        folder = self._options.binaries
        if folder is None:
            raise LabError(f"system fabric: no binaries; {FETCH}")
        wanted = [*(f"bin/{name}" for name in PROGRAMS), *(f"config/{name}" for name in CONFIGS)]
        wanted += [f"builders/ccaas/bin/{name}" for name in BUILDER]
        missing = [name for name in wanted if not (folder / name).is_file()]
        if missing:
            raise LabError(f"system fabric: {folder} has no {', '.join(missing)}; {FETCH}")
        self._folder = folder.resolve()
        self._ledger = find_binary()  # the contracts and the load client

    def lay_out(self) -> Network:
        """Make keys with cryptogen, channels with configtxgen, and the nodes' configuration."""
        config = self._directory / "config"
        config.mkdir()
        write_yaml(config / "crypto.yaml", files.crypto_config(self._options))
        write_yaml(config / "configtx.yaml", files.configtx(self._shape, self._directory))
        core = yaml.safe_load((self._folder / "config/core.yaml").read_text(encoding="utf-8"))
        core["vm"]["endpoint"] = ""  # no Docker, which the health check would ask for
        core["chaincode"]["externalBuilders"] = [
            {
                "name": "ccaas_builder",
                "path": str(self._folder / "builders/ccaas"),
                "propagateEnvironment": ["CHAINCODE_AS_A_SERVICE_BUILDER_CONFIG"],
            }
        ]
        write_yaml(config / "core.yaml", core)
        (config / "orderer.yaml").write_text(
            (self._folder / "config/orderer.yaml").read_text(encoding="utf-8"), encoding="utf-8"
        )
        self._run("cryptogen", ["generate", "--config", "config/crypto.yaml", "--output", "crypto"])
        (self._directory / "channels").mkdir()
        for channel in self._options.channels:
            profile = ["-profile", "Lab", "-channelID", channel, "-outputBlock", self._genesis(channel)]
            self._run("configtxgen", profile, {"FABRIC_CFG_PATH": str(config)})
        self._packages = {
            name: files.write_package(name, self._directory / self._package(name)) for name in self._shape.chaincodes
        }
        path = self._directory / "network.json"
        path.write_text(
            json.dumps(files.network_document(self._shape, self._options.channels), indent=2) + "\n", encoding="utf-8"
        )
        return load_network(path)

    def start(self, site: Site, network: Network) -> None:
        """Start all nodes; then join the channels, install the contracts, and commit their definitions."""
        site.say(f"starting {len(network.nodes)} processes")
        nodes = {node.name: node for node in network.nodes}
        for orderer in self._shape.orderers:
            environment = files.orderer_environment(orderer, self._directory)
            site.start(nodes[orderer.name], [self._program("orderer")], environment)
        for peer in self._shape.peers:
            environment = files.peer_environment(peer, self._shape, self._directory)
            site.start(nodes[peer.name], [self._program("peer"), "node", "start"], environment)
            for name in self._shape.chaincodes:
                site.start(nodes[f"cc-{name}-{peer.name}"], self._contract(peer, name))
        site.say("waiting until every node serves")
        site.wait_until_served([node for node in network.nodes if node.role is not Role.CHAINCODE])
        site.say(f"joining {', '.join(network.channels)}")
        for channel in network.channels:
            self._join(channel)
        site.wait_until_usable(network, self.lacking)
        for name in self._shape.chaincodes:
            site.say(f"installing contract {name}")
            for peer in self._shape.peers:
                self._peer(peer, ["lifecycle", "chaincode", "install", self._package(name)])
            for channel in network.channels:
                self._define(name, channel)

    def lacking(self, network: Network, patience: Patience) -> str:
        """Name the channels that have no leader."""
        channels = leaderless(network, patience)
        return f"nothing can be ordered on {', '.join(channels)}" if channels else ""

    def _join(self, channel: str) -> None:
        block = self._genesis(channel)
        for orderer in self._shape.orderers:
            admin = ["-o", local(orderer.port + 2)]
            self._run("osnadmin", ["channel", "join", "--channelID", channel, "--config-block", block, *admin])
        for peer in self._shape.peers:
            self._peer(peer, ["channel", "join", "-b", block])

    def _define(self, name: str, channel: str) -> None:
        """Have all organisations agree to a contract; it returns when every peer has it."""
        flags = ["--channelID", channel, "--name", name, "--version", "1.0", "--sequence", "1"]
        flags += ["--signature-policy", self._shape.chaincodes[name]]
        flags += ["-o", self._shape.orderers[0].address, "--tls"]
        flags += ["--cafile", str(self._directory / ORDERERS / f"tlsca/tlsca.{DOMAIN}-cert.pem")]
        definition = Definition(flags, self._packages[name])
        define(self._peer, definition, self._shape, self._directory)

    def _contract(self, peer: Peer, name: str) -> list[str]:
        address = local(self._shape.chaincode_port(peer, name))
        return [str(self._ledger), "chaincode", name, "--listen", address, "--id", self._packages[name],
                "--processors", "1"]  # fmt: skip

    def _peer(self, peer: Peer, arguments: Sequence[str]) -> str:
        """Run the command ``peer`` as the administrator of a peer's organisation."""
        return self._run("peer", arguments, files.admin_environment(peer, self._directory))

    def _run(self, program: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Run one of Fabric's programs in the lab's folder, and give its output; LabError with its last line."""
        try:
            done = subprocess.run(
                [self._program(program), *arguments],
                cwd=self._directory,
                env={**os.environ, **(environment or {})},
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            raise LabError(f"Fabric's `{program} {' '.join(arguments)}` did not end within {PATIENCE:.0f} s") from None
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            raise LabError(f"Fabric's `{program} {' '.join(arguments[:3])}` failed (status {done.returncode}): {said}")
        return done.stdout

    def _program(self, name: str) -> str:
        return str(self._folder / "bin" / name)

    @staticmethod
    def _genesis(channel: str) -> str:
        return f"channels/{channel}.block"

    @staticmethod
    def _package(name: str) -> str:
        return f"packages/{name}.tar.gz"


def write_yaml(path: Path, document: files.Document) -> None:
    """Write a configuration."""
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
