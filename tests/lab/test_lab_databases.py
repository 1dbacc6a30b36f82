"""Databases as the lab's system: how they are laid out, and real ones where Java and Maven are there."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from qioi.lab.lab import Lab
from qioi.lab.network import Node, parse_node
from qioi.lab.options import LabOptions
from qioi.lab.systems.cassandra import TOKENS, CassandraSystem, sees
from qioi.lab.systems.mariadb import followed
from qioi.lab.systems.mysql import MySqlSystem
from qioi.model import Role
from qioi.processes.errors import LabError


def replica(number: int) -> Node:
    entry = {"name": f"replica{number}", "role": "replica", "address": f"127.0.0.{number}:9042", "args": [], "log": "x"}
    return parse_node(entry, Path("/lab"))


@pytest.mark.parametrize("nodes", [1, 3, 20])
def test_tokens_divide_the_ring_evenly(nodes: int) -> None:
    system = CassandraSystem(Path("/lab"), LabOptions(system="cassandra", nodes=nodes))
    tokens = [int(str(system.settings(index)["initial_token"])) for index in range(nodes)]
    gaps = {after - before for before, after in zip(tokens, [*tokens[1:], tokens[0] + TOKENS], strict=True)}
    assert tokens[0] == -(2**63)
    assert max(tokens) < 2**63
    assert max(gaps) - min(gaps) < nodes


def test_a_write_counts_when_it_is_on_the_disk() -> None:
    system = CassandraSystem(Path("/lab"), LabOptions(system="cassandra"))
    assert {system.settings(index)["commitlog_sync"] for index in range(3)} == {"batch"}


def test_more_nodes_than_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8_000_000_000))
    with pytest.raises(LabError, match=r"12 nodes need 12.0 GB of memory and 8.0 GB are free; 6 nodes fit"):
        CassandraSystem(Path("/lab"), LabOptions(system="cassandra", nodes=12)).install(print)


def test_whom_a_node_sees_is_in_its_log() -> None:
    log = "2026-11-22 13:23:59,000 INFO  [GossipStage:1] Gossiper - InetAddress /127.0.0.2:26001 is now UP\n"
    assert sees(log, replica(2))
    assert not sees(log, replica(20))
    assert not sees(log.replace("is now UP", "is now DOWN"), replica(2))


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None, reason="needs Maven")
def test_a_real_mysql_serves_durably_and_leaves_nothing(lab: Lab, base_port: int) -> None:
    lab.up(LabOptions(system="mysql", base_port=base_port), die_with_parent=True)
    (server,) = lab.status()
    assert server.ready
    command = Path(f"/proc/{server.pids[0]}/cmdline").read_text().split("\0")
    assert {"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"} <= set(command)
    with socket.create_connection(("127.0.0.1", base_port), timeout=60) as connection:
        assert b"8.0.15" in connection.recv(100)  # the greeting of the protocol names the version
    lab.down()
    assert not lab.tree.left()
    assert not lab.directory.exists()


def test_a_replica_is_followed_when_it_is_semi_synchronous() -> None:
    plain = "2026-11-22 13:36:23 8 [Note] Start binlog_dump to slave_server(2), pos(, 4), using_gtid(1)\n"
    whole = plain + "2026-11-22 13:36:23 8 [Note] Start semi-sync binlog_dump to slave (server_id: 2), pos(./b, 4)\n"
    assert not followed(plain, 2)
    assert followed(whole, 2)
    assert not followed(whole, 12)


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mariadbd") is None, reason="needs mariadb-server-core and mariadb-client-core")
def test_real_mariadb_replicates_and_leaves_nothing(lab: Lab, base_port: int) -> None:
    network = lab.up(LabOptions(system="mariadb", nodes=2, base_port=base_port), die_with_parent=True)
    assert [entry.ready for entry in lab.status()] == [True, True]
    assert "semi-sync" in network.nodes[0].log.read_text()
    lab.down()
    assert not lab.tree.left()
    assert not lab.directory.exists()


def test_mysql_has_one_node() -> None:
    with pytest.raises(LabError, match="system mysql has one node; --nodes 3 is not accepted"):
        MySqlSystem(Path("/lab"), LabOptions(system="mysql", nodes=3)).install(print)


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None or shutil.which("java") is None, reason="needs Java and Maven")
def test_a_real_ring_serves_and_leaves_nothing(lab: Lab, base_port: int) -> None:
    network = lab.up(LabOptions(system="cassandra", nodes=2, base_port=base_port), die_with_parent=True)
    assert [node.role for node in network.nodes] == [Role.REPLICA] * 2
    assert all(entry.ready and len(entry.pids) == 1 for entry in lab.status())
    state = json.loads(lab.state_file.read_text())
    assert [one["role"] for one in state["components"]] == ["replica", "replica", "client"]
    lab.down()
    assert not lab.tree.left()
    assert not lab.directory.exists()
