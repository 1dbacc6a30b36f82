"""Apache Cassandra 5: N nodes of one ring on 127.0.0.1 to 127.0.0.N, each with one token and a small heap.

A write is acknowledged after its commit log is on the disk (``commitlog_sync: batch``), as a commit of the ledger is.
Keyspaces, with their replication factor, are made by whoever drives the system. Sources: Cassandra's cassandra.yaml
and jvm17-server.options.
"""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import yaml

from qioi.lab.maven import Distribution
from qioi.lab.network import Network, Node, load_network
from qioi.lab.options import LabOptions
from qioi.lab.site import Say, Site
from qioi.lab.systems import exporters
from qioi.lab.systems.system import Patience
from qioi.model import Role
from qioi.processes.errors import LabError

DISTRIBUTION = Distribution(
    "cassandra",
    "Apache Cassandra",
    "66 MB",
    Path(__file__).with_name("cassandra-pom.xml"),
    "`apt-get install openjdk-17-jre-headless maven` brings it",
)
#: Nodes unless said otherwise.
NODES = 3
#: Memory that a node takes, and that the machine keeps, in GB.
NODE_GB, SPARE_GB = 0.75, 3.0
#: The partitioner's tokens are signed 64-bit numbers.
TOKENS = 2**64
#: A serial collector and the quick compiler: nodes of a lab live for minutes, on few cores.
HEAP = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
#: What Cassandra needs of Java 17's own packages.
EXPORTS = [
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
]
OPENS = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.lang",
    "java.base/java.math",
    "java.base/java.lang.reflect",
    "java.base/java.net",
]
_LOGGING = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5level [%thread] %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="out"/></root>
</configuration>
"""


class CassandraSystem:
    """A ring whose nodes all start at once, after its first one."""

    #: Seconds that the Java machines take to start, on a busy host.
    slow = 180.0
    elsewhere: Path | None = None
    #: A node that is asked to end drains first; a lab needs none of its data.
    KILLED = (Role.REPLICA.value,)

    def __init__(self, directory: Path, options: LabOptions) -> None:
        self._directory, self._options = directory, options
        self._nodes = options.nodes or NODES

    def install(self, say: Say) -> None:
        """Fetch Cassandra; refuse more nodes than fit into the machine's memory."""
        if self._options.runtime == "docker":
            raise LabError("system cassandra runs with the runtime process only, not with docker")
        needed = self._nodes * NODE_GB + SPARE_GB
        free = psutil.virtual_memory().available / 1e9
        if free < needed:
            raise LabError(
                f"system cassandra: {self._nodes} nodes need {needed:.1f} GB of memory and {free:.1f} GB are "
                f"free; {max(0, int((free - SPARE_GB) / NODE_GB))} nodes fit"
            )
        self._jars = DISTRIBUTION.jars(say=say)
        self._exporter = exporters.JMX.jars(say=say)
        self._java = DISTRIBUTION.java()

    def lay_out(self) -> Network:
        """Write a configuration for each node, with tokens that divide the ring evenly."""
        nodes = [
            {
                "name": f"replica{number}",
                "role": Role.REPLICA.value,
                "address": f"127.0.0.{number}:{self._options.base_port}",
                "log": f"log/replica{number}.log",
                "args": [],
                "metrics": exporters.page(self._counter(number)),
            }
            for number in range(1, self._nodes + 1)
        ]
        (self._directory / "nodes").mkdir()
        (self._directory / "nodes" / "logback.xml").write_text(_LOGGING, encoding="utf-8")
        for index, node in enumerate(nodes):
            settings = yaml.safe_dump(self.settings(index), sort_keys=False)
            (self._directory / "nodes" / f"{node['name']}.yaml").write_text(settings, encoding="utf-8")
        described = {"channels": list(self._options.channels), "mode": "cassandra", "consenter": "paxos"}
        path = self._directory / "network.json"
        path.write_text(json.dumps({**described, "tls": False, "nodes": nodes}, indent=2) + "\n", encoding="utf-8")
        return load_network(path)

    def _counter(self, number: int) -> str:
        return f"127.0.0.{number}:{self._options.base_port + exporters.OFFSET}"

    def settings(self, index: int) -> dict[str, object]:
        """Give one node's cassandra.yaml."""
        address, data = f"127.0.0.{index + 1}", self._directory / "data" / f"replica{index + 1}"
        seeds = f"127.0.0.1:{self._options.base_port + 1}"
        return {
            "cluster_name": "qioi-lab",
            "num_tokens": 1,
            "initial_token": str(-(TOKENS // 2) + index * (TOKENS // self._nodes)),
            "auto_bootstrap": False,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "endpoint_snitch": "SimpleSnitch",
            "seed_provider": [
                {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": [{"seeds": seeds}]}
            ],
            "listen_address": address,
            "rpc_address": address,
            "native_transport_port": self._options.base_port,
            "storage_port": self._options.base_port + 1,
            "commitlog_sync": "batch",
            "commitlog_segment_size": "8MiB",
            "data_file_directories": [str(data / "data")],
            "commitlog_directory": str(data / "commitlog"),
            "hints_directory": str(data / "hints"),
            "saved_caches_directory": str(data / "caches"),
            "cdc_raw_directory": str(data / "cdc"),
            "concurrent_reads": 8,
            "concurrent_writes": 8,
        }

    def start(self, site: Site, network: Network) -> None:
        """Start the seed, and once it serves all others."""
        first, *others = network.nodes
        site.say(f"starting {len(network.nodes)} nodes")
        site.start(first, self._command(first))
        site.wait_until_served([first])
        for node in others:
            site.start(node, self._command(node))

    def lacking(self, network: Network, patience: Patience) -> str:
        """Name the first node that does not see all others."""
        patience()
        for node in network.nodes:
            log = node.log.read_text(errors="replace", encoding="utf-8")
            missing = [other.name for other in network.nodes if other is not node and not sees(log, other)]
            if missing:
                return f"{node.name} does not see {', '.join(missing)}"
        return ""

    def _command(self, node: Node) -> list[str]:
        (agent,) = self._jars.glob("jamm-*.jar")
        folder = self._directory / "nodes"
        properties = {
            "cassandra.config": f"file://{folder / f'{node.name}.yaml'}",
            "cassandra.storagedir": str(self._directory / "data" / node.name),
            "logback.configurationFile": str(folder / "logback.xml"),
            "cassandra-foreground": "yes",
            "java.security.manager": "allow",
            "jdk.attach.allowAttachSelf": "true",
            # Every node has its token, so none has to wait for the others' ranges.
            "cassandra.ring_delay_ms": "2000",
            "cassandra.consistent.rangemovement": "false",
        }
        counting = exporters.jmx_agent(self._exporter, self._counter(int(node.name.removeprefix("replica"))), folder)
        words = [f"--add-exports={one}=ALL-UNNAMED" for one in EXPORTS]
        words += [f"--add-opens={one}=ALL-UNNAMED" for one in OPENS]
        words += [f"-D{key}={value}" for key, value in properties.items()]
        main = "org.apache.cassandra.service.CassandraDaemon"
        return [self._java, *HEAP, f"-javaagent:{agent}", counting, *words, "-cp", f"{self._jars}/*", main]


def sees(log: str, other: Node) -> bool:
    """Whether a node's log says that another one is up."""
    host = other.address.rpartition(":")[0]
    return any(f"/{host}:" in line and "is now UP" in line for line in log.splitlines())
