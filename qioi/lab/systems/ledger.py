"""The bundled ledger: one static binary, which also makes its own keys, channels and configurations."""

from __future__ import annotations

from pathlib import Path

from qioi.lab.network import Network, Node, find_binary, load_network, make_network
from qioi.lab.options import LabOptions
from qioi.lab.readiness import leaderless
from qioi.lab.site import Say, Site
from qioi.lab.systems import kafka
from qioi.lab.systems.system import Patience
from qioi.model import Role
from qioi.processes.errors import LabError


class LedgerSystem:
    """Peers, orderers and chaincodes, and Kafka's brokers where they order."""

    #: Brokers that are asked to end wait for each other, the last ones in vain.
    KILLED = (Role.BROKER.value,)
    elsewhere: Path | None = None

    def __init__(self, directory: Path, options: LabOptions) -> None:
        self._directory, self._options = directory, options
        self._kafka = options.consenter == "kafka"
        self.slow = kafka.PATIENCE if self._kafka else 0.0

    def install(self, say: Say) -> None:
        """Find the ledger's binary; fetch Kafka's brokers where they order."""
        self._binary = find_binary()
        if not self._kafka:
            return
        if self._options.runtime == "docker":
            raise LabError("consenter kafka: its brokers run with the runtime process only, not with docker")
        self._jars = kafka.DISTRIBUTION.jars(say=say)
        self._java = kafka.DISTRIBUTION.java()

    def lay_out(self) -> Network:
        """Have the network made in a new folder, as the binary wants it, and take it over from there.

        All paths in it are relative, so it may be moved.
        """
        fresh = self._directory / ".init"
        make_network(self._binary, fresh, init_flags(self._options))
        for entry in fresh.iterdir():
            entry.rename(self._directory / entry.name)
        fresh.rmdir()
        return load_network(self._directory / "network.json")

    def start(self, site: Site, network: Network) -> None:
        """Start all nodes at once, after the brokers' folders are formatted."""
        brokers = self._brokers(network)
        if brokers.nodes:
            site.say(f"formatting the folders of {len(brokers.nodes)} Kafka brokers")
            brokers.prepare(site)
        site.say(f"starting {len(network.nodes)} {'containers' if self._options.runtime == 'docker' else 'processes'}")
        for node in network.nodes:
            site.start(node, self._command(node, brokers))

    def _brokers(self, network: Network) -> kafka.Brokers:
        nodes = tuple(node for node in network.nodes if not node.arguments)
        return kafka.Brokers(nodes, self._directory, *((self._jars, self._java) if nodes else (Path(), "")))

    def _command(self, node: Node, brokers: kafka.Brokers) -> list[str]:
        return [str(self._binary), *node.arguments] if node.arguments else brokers.command(node)

    def lacking(self, network: Network, patience: Patience) -> str:
        """Name the channels on which no transaction can be ordered."""
        channels = leaderless(network, patience)
        return f"nothing can be ordered on {', '.join(channels)}" if channels else ""


def init_flags(options: LabOptions) -> list[str]:
    """Format what a lab is asked for as flags of ``qioi-ledger init``."""
    flags = {
        "--orgs": options.orgs,
        "--peers-per-org": options.peers_per_org,
        "--orderers": options.orderers,
        "--mode": options.mode,
        "--consenter": options.consenter,
        "--base-port": options.base_port,
    }
    switches = {
        "--sequencer-memory": options.sequencer_memory,
        "--volatile-votes": options.volatile_votes,
        "--like-fabric": options.like_fabric,
    }
    spelled = [text for flag, value in flags.items() for text in (flag, str(value))]
    spelled += [flag for flag, is_set in switches.items() if is_set]
    return [*spelled, *(text for channel in options.channels for text in ("--channel", channel)), *options.extra]
