"""The lab as containers of a real engine: up, found by the daemon, driven, disturbed, and gone without a trace."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from engine_site import EngineSite
from ports import reserved
from waiting import PATIENCE, until

from qioi.commands.lab import command
from qioi.discovery.docker import DockerDiscovery
from qioi.kernel.hierarchy import find_hierarchy
from qioi.lab.arms import Arm, Runner
from qioi.lab.daemon import daemon_config
from qioi.lab.lab import CLIENT_GROUP, CLIENT_SHARES, Lab
from qioi.lab.load import LoadPlan
from qioi.lab.options import LabOptions
from qioi.model import Role
from qioi.processes.errors import LabError

pytestmark = [pytest.mark.slow, pytest.mark.host]

SMALL = ("--peers-per-org", "1", "--orderers", "1", "--consenter", "solo")
TINY = ("--orgs", "1", *SMALL)


@pytest.fixture(autouse=True)
def engine_named(engine: EngineSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")


@pytest.fixture
def port() -> Iterator[int]:
    with reserved() as first:
        yield first


@pytest.fixture
def folder(tmp_path: Path, engine: EngineSite) -> Iterator[Path]:
    yield tmp_path / "lab"
    Lab(tmp_path / "lab").down()


def tiny(port: int) -> LabOptions:
    return LabOptions(1, 1, 1, consenter="solo", base_port=port, runtime="docker")


def qioi(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def containers(engine: EngineSite) -> dict[str, str]:
    """Names of the labs' containers, and their states."""
    client = engine.client()
    try:
        found = client.api.containers(all=True, filters={"label": "io.qioi.lab"})
        return {one["Labels"]["io.qioi.lab.name"]: one["State"] for one in found}
    finally:
        client.close()


@contextmanager
def running(*words: object, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command, which does not outlive a test that fails."""
    with subprocess.Popen([str(word) for word in words], text=True, **more) as run:
        try:
            yield run
        finally:
            run.kill()


def spotless(engine: EngineSite, folder: Path) -> None:
    """Nothing of a lab is left: containers, images, control groups, folder."""
    client = engine.client()
    try:
        assert containers(engine) == {}
        assert client.api.images(all=True, filters={"label": "io.qioi.lab"}) == []
        assert [one for one in client.api.images(all=True) if "qioi-lab" in str(one["RepoTags"])] == []
        assert {one["Name"] for one in client.api.networks()} <= {"none", "host", "bridge"}
    finally:
        client.close()
    tree = Lab(folder).tree
    assert not [group for docker in tree.mounts.directories("docker") for group in docker.glob(f"{tree.name}-*")]
    assert not folder.exists()


def test_the_whole_network_comes_up_is_found_and_goes(engine: EngineSite, folder: Path, port: int) -> None:
    done = qioi("up", "--runtime", "docker", "--dir", folder, "--base-port", port)
    assert done.exit_code == 0, done.output
    rows = json.loads(qioi("status", "--dir", folder, "--output", "json").output)
    assert [row["role"] for row in rows].count("peer") == 4
    assert [row["role"] for row in rows].count("orderer") == 3
    assert all(row["ready"] and row["shares"] == 1024 for row in rows)
    client = engine.client()
    for row in rows:
        facts = client.api.inspect_container(f"{Lab(folder).tree.name}-{row['name']}")
        assert facts["Config"]["Image"].startswith("qioi-lab/ledger:")
        assert facts["HostConfig"]["LogConfig"] == {
            "Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}
        }  # fmt: skip
        assert row["cgroup"] == f"docker/{facts['Id']}"
        assert row["log"] == facts["LogPath"]
        (image,) = client.api.history(facts["Image"])  # one layer, with the one file
        assert image["Size"] > 1_000_000
    client.close()
    discovery = DockerDiscovery(str(engine.socket), find_hierarchy().version)
    with closing(discovery):
        assert discovery.wait(PATIENCE)
        found = discovery.found()
    assert found.problems == {}
    roles = [one.role for one in found.components]
    assert (roles.count(Role.PEER), roles.count(Role.ORDERER), roles.count(Role.CHAINCODE)) == (4, 3, 4)
    assert {one.channels for one in found.components} == {("mychannel",)}
    listed = {one["cgroup"] for one in Lab(folder).state()["components"] if one["role"] != "client"}
    assert listed == {one.cgroup for one in found.components}
    second = qioi("up", "--dir", folder, "--base-port", port)
    assert second.exit_code == 1
    assert "already running" in second.output
    assert qioi("down", "--dir", folder).output == f"down: {folder}\n"
    spotless(engine, folder)
    assert "nothing to do" in qioi("down", "--dir", folder).output


def test_a_load_runs_in_a_container_with_its_fixed_share(
    engine: EngineSite, folder: Path, port: int, tmp_path: Path
) -> None:
    assert qioi("up", "--runtime", "docker", "--dir", folder, "--base-port", port, *TINY).exit_code == 0
    words = [sys.executable, "-m", "qioi.cli", "lab", "load", "--dir", folder, "--rate", "20", "--warmup", "1s"]
    result = tmp_path / "results" / "load.json"
    result.parent.mkdir()
    ending = ["--duration", "3s", "--json", "results/load.json"]
    name = f"{Lab(folder).tree.name}-{CLIENT_GROUP}"
    with running(*words, *ending, cwd=tmp_path, stdout=subprocess.PIPE) as run:
        until(lambda: containers(engine).get(CLIENT_GROUP) == "running" or run.poll() is not None)
        assert engine.record(name) == CLIENT_SHARES
        output, _ = run.communicate(timeout=PATIENCE)
        assert run.returncode == 0
    assert "throughput" in output
    assert json.loads(result.read_text())["committed"] > 0
    assert CLIENT_GROUP not in containers(engine)
    with running(*words, "--duration", "300s") as run:
        until(lambda: containers(engine).get(CLIENT_GROUP) == "running" or run.poll() is not None)
        run.send_signal(signal.SIGINT)
        assert run.wait(PATIENCE) != 0
    assert CLIENT_GROUP not in containers(engine)
    bad = subprocess.run(
        [str(word) for word in (*words, "--nosuch")], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert bad.returncode not in (0, None)
    assert "nosuch" in bad.stderr


def test_a_lab_whose_folder_is_gone_is_found_by_its_labels(engine: EngineSite, folder: Path, port: int) -> None:
    assert qioi("up", "--runtime", "docker", "--dir", folder, "--base-port", port, *TINY).exit_code == 0
    shutil.rmtree(folder)
    assert qioi("down", "--dir", folder).exit_code == 0
    spotless(engine, folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_up_that_is_ended_half_way_leaves_nothing_that_down_does_not_find(
    engine: EngineSite, folder: Path, port: int, number: signal.Signals
) -> None:
    words = [sys.executable, "-m", "qioi.cli", "lab", "up", "--runtime", "docker", "--dir", folder]
    with running(*words, "--base-port", port, stdout=subprocess.DEVNULL) as run:
        until(lambda: len(containers(engine)) >= 3 or run.poll() is not None)
        run.send_signal(number)
        assert run.wait(PATIENCE) != 0
    if number == signal.SIGKILL:
        assert containers(engine) != {}
        assert qioi("down", "--dir", folder).exit_code == 0
    spotless(engine, folder)


def test_a_node_that_dies_is_named_with_its_log(engine: EngineSite, folder: Path, port: int) -> None:
    lab = Lab(folder)
    lab.up(tiny(port))
    lab.tree.group("orderer1").signal(signal.SIGKILL)
    until(lambda: not lab.tree.group("orderer1").pids())
    with pytest.raises(LabError, match=r"orderer1 ended \(status 137\); its log ends:\n.+"):
        lab.check()
    assert [row.node.name for row in lab.status() if not row.ready] == ["orderer1"]


def test_an_arm_beside_sysbench_containers_with_the_daemon(
    engine: EngineSite, folder: Path, port: int, tmp_path: Path
) -> None:
    lab = Lab(folder)
    network = lab.up(tiny(port))
    # Owed far more than is offered, Algorithm 1 raises at once.
    config = daemon_config(lab, network, law="proportional", threshold=10_000.0)
    beside: dict[str, str] = {}
    figures = Runner(lab, network, tmp_path).run(
        Arm("x", "x", LoadPlan(duration=18, warmup=2, rate=20), sysbench=2, config=config),
        lambda _seconds: beside.update(containers(engine)),
    )
    assert {"sysbench1", "sysbench2", CLIENT_GROUP} <= beside.keys()
    assert figures.interferer.events > 0
    assert figures.interferer.cores > 0
    assert figures.client_cores > 0
    assert figures.daemon_cores > 0
    # At which level depends on who else works on this host; that it knows the containers does not.
    said = (tmp_path / "x" / "daemon.log").read_text()
    assert "raised" in said
    assert f"{lab.tree.name}-peer0-org1" in said
    assert "sysbench1" not in containers(engine)
    assert [row.shares for row in lab.status()] == [1024] * len(network.nodes)
    lab.keep_logs(tmp_path / "kept")
    assert "Committed block" in (tmp_path / "kept" / "peer0-org1.log").read_text()


def test_a_demo_that_is_killed_takes_its_containers_with_it(
    engine: EngineSite, folder: Path, port: int, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "qioi.cli", "demo", "--runtime", "docker", "--dir", folder, "--base-port", port]
    words += ["--rate", "20", "--sysbench", "1", "--output", tmp_path / "out"]
    with (tmp_path / "log").open("w") as log, running(*words, stdout=log, stderr=log) as demo:
        until(lambda: containers(engine).get("client") == "running" or demo.poll() is not None)
        assert demo.poll() is None, (tmp_path / "log").read_text()
    until(lambda: not folder.exists())
    spotless(engine, folder)


def test_two_labs_on_one_engine_and_the_image_goes_with_the_last(
    engine: EngineSite, folder: Path, port: int, tmp_path: Path
) -> None:
    first, second = Lab(folder), Lab(tmp_path / "second")
    try:
        first.up(tiny(port))
        second.up(tiny(port + 50))
        assert first.down()
        assert all(row.ready for row in second.status())
        second.tree.prepare("neighbour")  # its image had no container before, and went with the first lab
    finally:
        second.down()
    spotless(engine, folder)


def test_without_an_engine_the_error_names_the_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    done = qioi("up", "--runtime", "docker", "--dir", folder)
    assert done.exit_code == 1
    assert done.output.splitlines()[-1] == (
        f"Error: no container engine: {tmp_path}/none.sock: No such file or directory (package docker.io brings one: "
        "`apt-get install docker.io`; DOCKER_HOST names another socket)"
    )
    assert not folder.exists()
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert "accepted is an engine on this host" in qioi("up", "--runtime", "docker", "--dir", folder).output
