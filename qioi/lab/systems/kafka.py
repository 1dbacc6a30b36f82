"""Real Apache Kafka brokers for a lab whose consenter is ``kafka``: fetched once by Maven, run without ZooKeeper.

Each broker is also one of the quorum that keeps the cluster's metadata (KRaft), and has small memory. Every record is
on all brokers but one before it counts (the topic's own setting, which the orderers make): one of three may fail.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qioi.lab.maven import Distribution
from qioi.lab.network import Node
from qioi.lab.site import Site
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines

DISTRIBUTION = Distribution(
    "kafka",
    "Apache Kafka",
    "46 MB",
    Path(__file__).with_name("kafka-pom.xml"),
    "`make kafka` (or `apt-get install openjdk-17-jre-headless maven`) brings it",
)
#: A serial collector and the quick compiler: brokers of a lab live for minutes, on few cores.
JAVA_FLAGS = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
#: Seconds that brokers may need to come up, beyond what the ledger may.
PATIENCE = 90.0

_PROPERTIES = """\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{address},CONTROLLER://{controller}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
# A killed broker is noticed by its silence. Less than this would take brokers for dead that wait for a CPU.
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
num.network.threads=2
num.io.threads=4
background.threads=2
log.cleaner.enable=false
"""
_LOGGING = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of one lab: how they are configured, prepared and started."""

    nodes: Sequence[Node]
    directory: Path
    jars: Path
    java: str

    def command(self, node: Node) -> list[str]:
        """Format how a broker is started, from the lab's folder."""
        return self._java("kafka.Kafka", str(self._file(node)))

    def prepare(self, site: Site) -> None:
        """Write the configurations and format the brokers' folders, all at once, each in its own group."""
        self._logging.write_text(_LOGGING, encoding="utf-8")
        formats = []
        for node in self.nodes:
            self._file(node).write_text(self.properties(node), encoding="utf-8")
            command = self._java("kafka.tools.StorageTool", "format", "-t", self._cluster, "-c", str(self._file(node)))
            formats.append(site.set_up(node, command))
        for node, process in zip(self.nodes, formats, strict=True):
            status = process.wait()
            if status != 0:
                raise LabError(f"{node.name} could not be formatted (status {status}):\n{last_lines(node.log)}")

    def properties(self, node: Node) -> str:
        """Format a broker's configuration."""
        voters = ",".join(f"{number}@{one.controller}" for number, one in enumerate(self.nodes, 1))
        return _PROPERTIES.format(
            number=1 + list(self.nodes).index(node),
            voters=voters,
            address=node.address,
            controller=node.controller,
            data=self.directory / "data" / node.name,
        )

    @property
    def _cluster(self) -> str:
        """Name the cluster by its folder: brokers of another one are refused."""
        digest = hashlib.sha256(os.fsencode(self.directory)).digest()[:16]
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    @property
    def _logging(self) -> Path:
        return self.directory / "nodes" / "log4j.properties"

    def _file(self, node: Node) -> Path:
        return self.directory / "nodes" / f"{node.name}.properties"

    def _java(self, main: str, *arguments: str) -> list[str]:
        logging = f"-Dlog4j.configuration=file:{self._logging}"
        return [self.java, *JAVA_FLAGS, logging, "-cp", f"{self.jars}/*", main, *arguments]
