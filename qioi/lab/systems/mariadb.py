"""MariaDB with semi-synchronous replicas, Debian's own: the replicated stand-in for MySQL, and named as what it is.

A commit is acknowledged after it is on the primary's disk and one replica has received it. The first node is the
primary; the others follow it by GTID. Source: MariaDB's "Semisynchronous Replication" (wait point AFTER_SYNC).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from qioi.lab.network import Network, Node, load_network
from qioi.lab.options import LabOptions
from qioi.lab.site import Say, Site
from qioi.lab.systems import exporters
from qioi.lab.systems.mysql import DATABASE, USER, with_exporter
from qioi.lab.systems.system import Patience
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines

INSTALL = "`apt-get install mariadb-server-core mariadb-client-core` brings it"
#: Nodes unless said otherwise.
NODES = 2
#: The user by whom replicas follow the primary.
REPLICATION = "follower"
SETTINGS = (
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=1",
    "--innodb-buffer-pool-size=256M",
    "--max-connections=2000",
    "--skip-name-resolve",
    "--log-bin=binlog",
    "--gtid-strict-mode=ON",
)
#: Milliseconds that a commit waits for a replica: longer than any experiment. After MariaDB's own ten seconds the
#: primary would go on alone in silence, and a starved replica would look like a fast one.
REPLICA_PATIENCE = 24 * 3600 * 1000
PRIMARY = ("--rpl-semi-sync-master-wait-point=AFTER_SYNC", f"--rpl-semi-sync-master-timeout={REPLICA_PATIENCE}")
#: A replica refuses writes of its own, so that its GTIDs are the primary's.
REPLICA = ("--rpl-semi-sync-slave-enabled=ON", "--read-only=ON", "--log-slave-updates=ON")


class MariaDbSystem:
    """A primary and its replicas, with an empty database."""

    #: Seconds that making the data folders takes, beyond the start.
    slow = 60.0
    elsewhere: Path | None = None

    def __init__(self, directory: Path, options: LabOptions) -> None:
        self._directory, self._options = directory, options

    def install(self, say: Say) -> None:
        """Find the server's programs."""
        if self._options.runtime == "docker":
            raise LabError("system mariadb runs with the runtime process only, not with docker")
        for program in ("mariadbd", "mariadb-install-db"):
            if shutil.which(program) is None:
                raise LabError(f"MariaDB ({program}) is not installed: {INSTALL}")

    def lay_out(self) -> Network:
        """Describe the nodes, and write what each runs at its start."""
        (self._directory / "nodes").mkdir()
        (self._directory / "data").mkdir()
        (self._directory / "tmp").mkdir()
        port = self._options.base_port
        nodes: list[dict[str, object]] = [
            {
                "name": f"replica{number + 1}",
                "role": Role.REPLICA.value,
                "address": f"127.0.0.1:{port + number}",
                "log": f"log/replica{number + 1}.log",
                "args": [],
            }
            for number in range(self._options.nodes or NODES)
        ]
        for node in nodes:
            words = lead(replicas=len(nodes) - 1) if node is nodes[0] else follow(port)
            self._first_words(str(node["name"])).write_text("".join(f"{word};\n" for word in words), encoding="utf-8")
        described = {"channels": list(self._options.channels), "mode": "mariadb", "consenter": "semi-sync"}
        path = self._directory / "network.json"
        path.write_text(
            json.dumps({**described, "tls": False, "nodes": with_exporter(nodes, port)}, indent=2) + "\n",
            encoding="utf-8",
        )
        return load_network(path)

    def start(self, site: Site, network: Network) -> None:
        """Make the data folders all at once, then start the primary, then its replicas."""
        servers = [node for node in network.nodes if node.role is Role.REPLICA]
        site.say(f"making the data folders of {len(servers)} nodes")
        made = [(node, site.set_up(node, self._make(node))) for node in servers]
        for node, process in made:
            if process.wait() != 0:
                raise LabError(f"{node.name} could not make its data folder; its log ends:\n{last_lines(node.log)}")
        primary, *replicas = servers
        site.say(f"starting {len(servers)} nodes")
        site.start(primary, [*self._command(primary, 1), *PRIMARY])
        site.wait_until_served([primary])
        for number, node in enumerate(replicas, 2):
            site.start(node, [*self._command(node, number), *REPLICA])
        for exporter in network.nodes[len(servers) :]:
            exporters.start_mysqld_exporter(site, exporter, primary, USER)

    def lacking(self, network: Network, patience: Patience) -> str:
        """Name the replicas that do not follow the primary."""
        patience()
        primary, *replicas = (node for node in network.nodes if node.role is Role.REPLICA)
        log = primary.log.read_text(errors="replace", encoding="utf-8")
        missing = [node.name for number, node in enumerate(replicas, 2) if not followed(log, number)]
        return f"{', '.join(missing)} do not follow {primary.name}" if missing else ""

    def _make(self, node: Node) -> list[str]:
        flags = ["--no-defaults", "--user=root", *self.folders(node), "--skip-test-db"]
        # The server runs as root, and its own root may have it write files: nobody is that by a port.
        flags += ["--auth-root-authentication-method=socket", "--auth-root-socket-user=root"]
        return ["mariadb-install-db", *flags]

    def _command(self, node: Node, number: int) -> list[str]:
        host, _, port = node.address.rpartition(":")
        flags = ["--no-defaults", "--user=root", *self.folders(node), f"--server-id={number}"]
        flags += [f"--port={port}", f"--bind-address={host}", f"--init-file={self._first_words(node.name)}"]
        flags += [f"--socket={node.name}.sock", f"--pid-file={node.name}.pid"]
        return [str(shutil.which("mariadbd")), *flags, *SETTINGS]

    def folders(self, node: Node) -> tuple[str, str]:
        """Give a node's own folders: a server that starts removes all temporary tables that it finds in its own."""
        temporary = self._directory / "tmp" / node.name
        temporary.mkdir(exist_ok=True)
        return f"--datadir={self._directory / 'data' / node.name}", f"--tmpdir={temporary}"

    def _first_words(self, name: str) -> Path:
        return self._directory / "nodes" / f"{name}.sql"


def lead(replicas: int) -> list[str]:
    """Give the first statements of a primary with so many replicas: a database, its user, and the replicas' user."""
    words = [
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1'",
        f"GRANT ALL ON {DATABASE}.* TO '{USER}'@'127.0.0.1'",
        f"CREATE USER IF NOT EXISTS '{REPLICATION}'@'127.0.0.1'",
        f"GRANT REPLICATION SLAVE ON *.* TO '{REPLICATION}'@'127.0.0.1'",
    ]
    # Last: each statement before it would wait for a replica, and none comes before the primary serves.
    return [*words, "SET GLOBAL rpl_semi_sync_master_enabled=ON"] if replicas else words


def follow(port: int) -> list[str]:
    """Give a replica's first statements, for a primary at that port of loopback."""
    primary = f"MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{REPLICATION}', MASTER_CONNECT_RETRY=1"
    return [f"CHANGE MASTER TO {primary}, MASTER_USE_GTID=slave_pos", "START SLAVE"]


def followed(log: str, number: int) -> bool:
    """Whether the primary's log says that the replica with that server id follows it, semi-synchronously."""
    return any(f"server_id: {number})" in line and "semi-sync" in line for line in log.splitlines())
