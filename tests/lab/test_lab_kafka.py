"""Kafka ordering on real brokers: killed under load, with the orderers, nothing that was reported is lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from node_names import named
from waiting import PATIENCE, until

from qioi.lab.lab import Lab
from qioi.lab.network import Network, Node, find_binary, parse_node
from qioi.lab.options import LabOptions
from qioi.lab.readiness import ask, serves
from qioi.lab.systems import kafka
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.processes.launch import launch

_HEIGHT = re.compile(r"^ledger_blockchain_height\{.*\} (\S+)$", re.MULTILINE)
_VALID = re.compile(r'^ledger_transaction_count\{.*validation_code="VALID".*\} (\S+)$', re.MULTILINE)


def broker(number: int) -> Node:
    node = {"name": f"broker{number}", "role": "broker", "address": f"127.0.0.1:{number}", "args": [], "log": "log/b"}
    return parse_node({**node, "controller": f"127.0.0.1:10{number}"}, Path("/lab"))


def test_brokers_know_each_other_and_their_own_place() -> None:
    brokers = kafka.Brokers([broker(1), broker(2)], Path("/lab"), Path("/jars"), "/bin/java")
    lines = brokers.properties(broker(2)).splitlines()
    assert "node.id=2" in lines
    assert "controller.quorum.voters=1@127.0.0.1:101,2@127.0.0.1:102" in lines
    assert "listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:102" in lines
    assert "log.dirs=/lab/data/broker2" in lines
    assert brokers.command(broker(2))[-3:] == ["/jars/*", "kafka.Kafka", "/lab/nodes/broker2.properties"]


@pytest.mark.parametrize(
    "tool", [lambda cache: kafka.DISTRIBUTION.java(), lambda cache: kafka.DISTRIBUTION.jars(cache=cache)]
)
def test_a_host_without_them_is_told_how_to_have_them(
    tool: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="make kafka"):
        tool(tmp_path / "cache")
    assert not list(tmp_path.iterdir())


def test_a_maven_that_fails_leaves_no_half_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text('#!/bin/sh\necho "[ERROR] no such registry"\nexit 1\n')
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:/bin:/usr/bin")
    with pytest.raises(LabError, match="no such registry"):
        kafka.DISTRIBUTION.jars(cache=tmp_path / "cache")
    assert not list((tmp_path / "cache" / "maven").iterdir())


#: Seconds without a block after which none is under way: far more than one stays open (200 ms).
QUIET = 5.0


class Faults:
    """A lab whose nodes are killed and started again, and what its client was told meanwhile."""

    def __init__(self, lab: Lab, network: Network) -> None:
        self.lab, self.network = lab, network
        nodes = tuple(node for node in network.nodes if node.role is Role.BROKER)
        self.brokers = kafka.Brokers(nodes, lab.directory, kafka.DISTRIBUTION.jars(), kafka.DISTRIBUTION.java())
        self.peers = [node for node in network.nodes if node.role is Role.PEER]
        self.told = lab.directory / "told"
        arguments = ("--chaincode", "kv", "--workload", "update", "--clients", "8", "--accounts", "50")
        times = ("--warmup", "0s", "--duration", "2h", "--timeout", "12s", "--progress", "0s")
        command = lab.load_command([*arguments, *times, "--value-size", "100", "--record", str(self.told)])
        self.client = launch(command, lab.client_group(), log=lab.directory / "log" / "client.log")

    def committed(self) -> float:
        pages = [ask(peer.operations, "/metrics") or "" for peer in self.peers]
        return min(sum(float(value) for value in _VALID.findall(page)) for page in pages)

    def progress(self, count: int) -> None:
        """Wait until every peer has committed so many more."""
        start = self.committed()
        until(lambda: self.committed() >= start + count, pause=0.1, what="the ledger goes on")

    def kill(self, name: str) -> None:
        (node,) = [node for node in self.network.nodes if node.name == name]
        group = self.lab.tree.group(name)
        assert group.signal(signal.SIGKILL) == 1
        until(lambda: not group.pids(), pause=0.1, what=f"{name} is gone")
        self.progress(20)
        command = self.brokers.command(node) if node.role is Role.BROKER else [str(find_binary()), *node.arguments]
        launch(command, group, log=node.log, cwd=self.lab.directory)
        until(lambda: serves(node), pause=0.1, what=f"{name} serves")
        self.progress(20)

    def settle(self) -> list[str]:
        """End the load, wait until all peers have all that was told, and the same, and give what was told."""
        self.client.send_signal(signal.SIGINT)
        self.client.wait(PATIENCE)
        told = self.told.read_text().split("\n")[:-1]
        assert told, "the client was told of commits"
        least = 1 + max(int(line.split()[1]) for line in told)  # blocks are counted from 0
        until(lambda: self.is_settled(least), pause=0.1, what="all peers have the same height, of all that was told")
        return told

    def is_settled(self, least: int) -> bool:
        """Whether every peer answers and has the same height, that many blocks at least, and no more a while later."""
        before = self.heights()
        if len(set(before)) != 1 or before[0] < least:
            return False
        time.sleep(QUIET)
        return self.heights() == before

    def heights(self) -> list[float]:
        """Give the height of every peer, -1 for one that does not tell it."""
        found = [_HEIGHT.findall(ask(peer.operations, "/metrics") or "") for peer in self.peers]
        return [float(each[0]) if each else -1.0 for each in found]


@pytest.mark.slow
@pytest.mark.host
@pytest.mark.parametrize("mode", ["stream", "block"])
def test_killed_brokers_and_orderers_lose_nothing(lab: Lab, base_port: int, mode: str) -> None:
    extra = ("--chaincode", "kv", "--batch-timeout", "200ms")
    said: list[str] = []
    options = LabOptions(peers_per_org=1, mode=mode, consenter="kafka", base_port=base_port, extra=extra)
    network = lab.up(options, say=said.append)
    assert named(network, Role.BROKER) == ("broker1", "broker2", "broker3")
    assert any("Kafka brokers" in line for line in said)
    components = {entry["name"]: entry for entry in lab.state()["components"]}
    assert components["broker2"]["role"] == "broker"
    assert components["broker2"]["cgroup"] == f"{lab.tree.name}/broker2"
    assert all(entry.ready and len(entry.pids) == 1 for entry in lab.status())
    faults = Faults(lab, network)
    faults.progress(20)
    for victim in ("broker1", "orderer1", "broker2", "orderer2", "broker3"):
        faults.kill(victim)
    told = faults.settle()
    assert len(told) > 100
    assert lab.down(keep_files=True)
    assert not lab.tree.root.exists
    reports = [inspect(lab, network, peer.name) for peer in faults.peers]
    for key in ("height", "last_hash", "commit_hash", "state_hash", "verdicts"):
        assert reports[0][key] == reports[1][key], key
    valid = [(words[3], words[0]) for words in map(str.split, reports[0]["verdicts"]) if words[2] == "VALID"]
    assert len(valid) == len(set(valid)) == len({name for name, _ in valid})
    assert {tuple(line.split()) for line in told} <= set(valid)
    print(mode, "told", len(told), "codes", reports[0]["codes"])


def inspect(lab: Lab, network: Network, peer: str) -> dict[str, object]:
    ledger = lab.directory / "data" / peer / "channels" / network.channels[0]
    command = [str(find_binary()), "inspect", "--json", "--verdicts", str(ledger)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert isinstance(report, dict)
    return report
