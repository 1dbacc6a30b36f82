"""Pages on which a database counts what it does, so that a daemon can go by its throughput (qioi.model.counting).

MySQL and MariaDB have Prometheus' mysqld_exporter beside them, a process of its own, where it is installed. Cassandra's
nodes have Prometheus' JMX exporter as an agent; it reads the few beans that count, because a page of all takes longer
than a daemon's period.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from qioi.lab.maven import Distribution
from qioi.lab.network import Node
from qioi.lab.site import Site
from qioi.model import Role

#: Ports between a database's first one and its exporters' first one.
OFFSET = 50
#: Debian's name of the program comes first.
MYSQLD_EXPORTER = ("prometheus-mysqld-exporter", "mysqld_exporter")
JMX = Distribution(
    "jmx-exporter",
    "Prometheus' JMX exporter",
    "1 MB",
    Path(__file__).with_name("jmx-exporter-pom.xml"),
    "`apt-get install openjdk-17-jre-headless maven` brings it",
)
#: Transactions that went to the binary log: one for each commit that wrote. Statements are more than transactions where
#: procedures run them, and a call may only read.
_LOGGED: dict[str, object] = {"metric": "mysql_global_status_binlog_cache_use"}
#: What counts as a commit, by the mode that network.json tells: a key `throughput` of the daemon's channels.
COUNTS: dict[str, dict[str, object]] = {
    "cassandra": {"metric": "cassandra_client_requests_total", "labels": {"scope": ["CASWrite", "Write"]}},
    "mysql": _LOGGED,
    "mariadb": _LOGGED,
}
#: All collectors of the exporter are off but the one that shows what counts.
COLLECTORS = (
    "--collect.global_status",
    "--no-collect.global_variables",
    "--no-collect.slave_status",
    "--no-collect.info_schema.innodb_cmp",
    "--no-collect.info_schema.innodb_cmpmem",
    "--no-collect.info_schema.query_response_time",
)
#: The JMX exporter's configuration. A request counts at the node that coordinates it, also one that fails.
BEANS = {
    "includeObjectNames": [
        f"org.apache.cassandra.metrics:type=ClientRequest,scope={scope},name=Latency"
        for scope in ("CASWrite", "Write", "Read")
    ],
    "rules": [
        {
            "pattern": r"org.apache.cassandra.metrics<type=ClientRequest, scope=(\w+), name=Latency><>Count",
            "name": "cassandra_client_requests_total",
            "type": "COUNTER",
            "labels": {"scope": "$1"},
        }
    ],
}


def page(address: str) -> str:
    """Give the URL of an exporter's page."""
    return f"http://{address}/metrics"


def find_mysqld_exporter() -> str | None:
    """Find the exporter; without it the lab works, and a daemon goes by waiting alone."""
    return next((found for name in MYSQLD_EXPORTER if (found := shutil.which(name))), None)


def exporter_node(address: str) -> dict[str, object]:
    """Describe a server's exporter in network.json."""
    return {"name": "exporter1", "role": Role.SUPPORT.value, "address": address, "log": "log/exporter1.log", "args": []}


def start_mysqld_exporter(site: Site, node: Node, server: Node, user: str) -> None:
    """Start a server's exporter, for a user without a password.

    Up to 0.14 it takes such a user from the environment alone, and from 0.15 on from a file alone.
    """
    host, _, port = server.address.rpartition(":")
    file = site.directory / "nodes" / f"{node.name}.cnf"
    file.touch(0o600)
    file.write_text(f"[client]\nuser={user}\nhost={host}\nport={port}\n", encoding="utf-8")
    flags = [f"--web.listen-address={node.address}", f"--config.my-cnf={file}", *COLLECTORS]
    site.start(node, [str(find_mysqld_exporter()), *flags], {"DATA_SOURCE_NAME": f"{user}@tcp({server.address})/"})


def jmx_agent(jars: Path, address: str, folder: Path) -> str:
    """Write the agent's configuration, and give the flag by which Java loads it."""
    (agent,) = jars.glob("jmx_prometheus_javaagent-*.jar")
    path = folder / "jmx-exporter.yaml"
    path.write_text(yaml.safe_dump(BEANS, sort_keys=False), encoding="utf-8")
    return f"-javaagent:{agent}={address}:{path}"
