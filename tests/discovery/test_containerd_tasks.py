"""containerd's folder of tasks, as containerd 1.6 writes it, with a real process in a real control group."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from waiting import DIES_WITH_TEST, PATIENCE, remove_group

from qioi.discovery import containerd
from qioi.discovery.cgroups import PROC
from qioi.discovery.containerd import ENDING, ContainerdDiscovery
from qioi.discovery.recognise import Rule
from qioi.kernel.hierarchy import find_hierarchy
from qioi.model import Role

CRI = "io.kubernetes.cri."
PEER = "docker.io/hyperledger/fabric-peer:2.5"


class Tasks:
    """A folder of tasks, a folder of pods' logs, and a group that the tasks' processes are below."""

    def __init__(self, folder: Path) -> None:
        self.state, self.logs = folder / "tasks", folder / "pods" / "default_peer0_ab"
        (self.state / "k8s.io").mkdir(parents=True)
        self.parent = find_hierarchy().folder(f"qioi-test-{os.getpid()}-{uuid.uuid4().hex[:6]}")
        self.parent.mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.task("5a5a", "sandbox", {f"{CRI}sandbox-log-directory": str(self.logs)})

    def task(self, number: str, kind: str, more: dict[str, str], namespace: str = "k8s.io") -> Path:
        group = self.parent / number
        group.mkdir()
        self.processes.append(subprocess.Popen([*DIES_WITH_TEST, "sleep", "1000000"]))
        (group / "cgroup.procs").write_text(str(self.processes[-1].pid))
        folder = self.state / namespace / number
        folder.mkdir(parents=True)
        (folder / "init.pid").write_text(str(self.processes[-1].pid))
        annotations = {f"{CRI}container-type": kind, f"{CRI}sandbox-id": "5a5a", f"{CRI}sandbox-name": "peer0", **more}
        (folder / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "annotations": annotations}))
        return folder

    def container(self, number: str, name: str, image: str, *logs: str, **more: str) -> Path:
        """Make one; ``more`` are further annotations of the CRI."""
        (self.logs / name).mkdir(parents=True, exist_ok=True)
        for log in logs:
            (self.logs / name / log).touch()
        annotations = {f"{CRI}container-name": name, f"{CRI}image-name": image}
        further = {f"{CRI}{key.replace('_', '-')}": value for key, value in more.items()}
        return self.task(number, "container", annotations | further)

    def discovery(self, *rules: Rule, proc: Path = PROC) -> ContainerdDiscovery:
        return ContainerdDiscovery(str(self.state), find_hierarchy().version, rules, every=0.0, proc=proc)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for group in self.parent.iterdir():
            if group.is_dir():
                remove_group(group)
        remove_group(self.parent)


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Tasks]:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes control groups")
    tasks = Tasks(tmp_path)
    yield tasks
    tasks.close()


def test_a_container_with_its_newest_log(tasks: Tasks) -> None:
    tasks.container("c1c1", "peer", PEER, "2.log", "10.log", "10.log.20260101-000000", "note.log")
    tasks.container("d2d2", "db", "docker.io/library/postgres:16", "0.log")
    (component,) = tasks.discovery().found().components
    assert (component.name, component.role) == ("peer0/peer", Role.PEER)
    assert component.cgroup == f"{tasks.parent.name}/c1c1"
    assert (component.log, component.log_format) == (str(tasks.logs / "peer" / "10.log"), "cri")


def test_rules_go_by_pod_and_container(tasks: Tasks) -> None:
    tasks.container("c1c1", "db", "docker.io/library/couchdb:3", "0.log")
    rule = Rule(Role.CLIENT, image="*couchdb*", name="peer0/*", channels=("red",))
    (component,) = tasks.discovery(rule).found().components
    assert (component.role, component.channels, component.log) == (Role.CLIENT, ("red",), None)


def test_pods_of_one_name_in_two_namespaces_have_names_of_their_own(tasks: Tasks) -> None:
    """A name that hung on who was met first would come and go with the others, and with what is known by it."""
    first = tasks.container("c1c1", "peer", PEER, "0.log", sandbox_namespace="org1")
    tasks.container("b2b2", "peer", PEER, "0.log", sandbox_namespace="org2")
    discovery = tasks.discovery(Rule(Role.PEER, image="*", name="peer0/peer", channels=("red",)))

    def names() -> dict[str, str]:
        return {one.name: one.cgroup.rpartition("/")[2] for one in discovery.found().components}

    assert names() == {"org1/peer0/peer": "c1c1", "org2/peer0/peer": "b2b2"}
    assert {one.channels for one in discovery.found().components} == {("red",)}  # rules go by pod and container
    shutil.rmtree(first)
    assert names() == {"org2/peer0/peer": "b2b2"}


def test_whose_it_is_stands_in_its_environment(tasks: Tasks) -> None:
    folder = tasks.container("c1c1", "peer", PEER, "0.log")
    config = json.loads((folder / "config.json").read_text())
    config["process"] = {"env": ["PATH=/bin", "CORE_PEER_LOCALMSPID=Org1MSP", "EMPTY"]}
    (folder / "config.json").write_text(json.dumps(config))
    (component,) = tasks.discovery().found().components
    assert component.organisation == "Org1MSP"


COUCHDB = "docker.io/library/couchdb:3.3"


def give_environment(task: Path, *env: str) -> None:
    config = json.loads((task / "config.json").read_text())
    config["process"] = {"env": list(env)}
    (task / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("address", ["", "localhost:5984", "peer0:5984"])
def test_a_couchdb_in_the_pod_of_a_peer_that_names_it_serves_that_peer(tasks: Tasks, address: str) -> None:
    peer = tasks.container("c1c1", "peer", PEER, "0.log")
    named = (f"CORE_LEDGER_STATE_COUCHDBCONFIG_COUCHDBADDRESS={address}",) if address else ()
    give_environment(peer, "CORE_PEER_LOCALMSPID=Org1MSP", "CORE_LEDGER_STATE_STATEDATABASE=CouchDB", *named)
    tasks.container("d2d2", "db", COUCHDB, "0.log")
    tasks.container("e3e3", "db", COUCHDB, "0.log", sandbox_id="5b5b", sandbox_name="shop")
    tasks.task("f4f4", "container", {"io.qioi.ignore": "", f"{CRI}container-name": "x", f"{CRI}image-name": COUCHDB})
    found = tasks.discovery(Rule(Role.PEER, image="*fabric-peer*", channels=("red",))).found()
    database, _ = found.components
    assert (database.name, database.role, database.channels) == ("peer0/db", Role.SUPPORT, ("red",))
    assert (database.organisation, database.log, found.problems) == ("Org1MSP", None, {})


def test_a_couchdb_that_no_peer_of_its_pod_names_is_a_neighbour(tasks: Tasks) -> None:
    peer = tasks.container("c1c1", "peer", PEER, "0.log")
    tasks.container("d2d2", "db", COUCHDB, "0.log")
    assert [one.role for one in tasks.discovery().found().components] == [Role.PEER]
    address = "CORE_LEDGER_STATE_COUCHDBCONFIG_COUCHDBADDRESS=couch.elsewhere:5984"
    give_environment(peer, "CORE_LEDGER_STATE_STATEDATABASE=CouchDB", address)
    assert [one.role for one in tasks.discovery().found().components] == [Role.PEER]


def test_dockers_own_tasks_are_left_out(tasks: Tasks) -> None:
    tasks.task("c1c1", "container", {"io.qioi.role": "peer"}, namespace="moby")
    assert tasks.discovery().found().components == ()


def test_a_task_that_is_being_made_is_met_when_it_is_complete(tasks: Tasks) -> None:
    folder = tasks.container("c1c1", "peer", PEER, "0.log")
    whole = (folder / "config.json").read_text()
    (folder / "config.json").write_text(whole[:-5])
    discovery = tasks.discovery()
    assert discovery.found().components == ()
    (folder / "config.json").write_text(whole)
    assert len(discovery.found().components) == 1
    before = discovery.found()
    assert discovery.found() is before
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert discovery.found().components == ()


@pytest.mark.parametrize("content", ["[]", '{"annotations": 3}', "nonsense", '{"annotations": {"a": null}}'])
def test_configurations_of_another_shape_are_nothing_to_us(tasks: Tasks, content: str) -> None:
    folder = tasks.container("c1c1", "peer", PEER, "0.log")
    (folder / "config.json").write_text(content)
    assert tasks.discovery().found().components == ()


def test_a_peer_whose_log_is_not_known_is_a_component_with_a_problem(tasks: Tasks) -> None:
    tasks.task("c1c1", "container", {"io.qioi.role": "peer", f"{CRI}sandbox-id": "none"})
    found = tasks.discovery().found()
    assert [one.log for one in found.components] == [None]
    assert "its log is not known" in found.problems["container c1c1"]


def test_check_names_what_is_there_and_what_would_be_found(tasks: Tasks, tmp_path: Path) -> None:
    tasks.container("c1c1", "peer", PEER, "0.log")
    config = tmp_path / "qioi.yaml"
    config.write_text(yaml.safe_dump({"containerd": {"state": str(tasks.state)}, "state_dir": str(tmp_path / "s")}))
    command = [sys.executable, "-m", "qioi.cli", "check", "-c", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert f"found: peer0/peer (peer) at {tasks.parent.name}/c1c1\n" in done.stdout
    for name in ("docker", "podman", "containerd", "systemd"):
        assert f"discovery {name}: " in done.stdout


@contextmanager
def unlisted(place: Path) -> Iterator[None]:
    """Have a link in that place lead to a folder that cannot be listed: an ended process's that nobody waited for."""
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        place.symlink_to(f"/proc/{ended.pid}/net")
        yield
        place.unlink()


def test_a_namespace_that_cannot_be_listed_is_said_and_hides_no_other(tasks: Tasks) -> None:
    tasks.container("7b7b", "peer", PEER, "0.log")
    with unlisted(tasks.state / "vanishing"):
        found = tasks.discovery().found()
    assert [one.name for one in found.components] == ["peer0/peer"]
    assert "vanishing: Invalid argument: looked at again" in found.problems[f"containerd {tasks.state}"]
    assert not found.complete


def test_what_was_found_stays_while_its_namespace_cannot_be_listed(tasks: Tasks) -> None:
    tasks.container("7b7b", "peer", PEER, "0.log")
    discovery = tasks.discovery()
    before, namespace = discovery.found(), tasks.state / "k8s.io"
    namespace.rename(tasks.state.parent / "away")
    with unlisted(namespace):
        found = discovery.found()
        assert (found.components, found.complete) == (before.components, True)
        assert list(found.problems) == [f"containerd {tasks.state}"]
    (tasks.state.parent / "away").rename(namespace)
    assert discovery.found() == before
    shutil.rmtree(namespace)
    assert discovery.found().components == ()


@pytest.mark.parametrize(
    ("content", "why"), [('{"annotations": {', "is no JSON"), (None, "cannot be read: Is a directory")]
)
def test_a_configuration_that_stays_unreadable_is_said(tasks: Tasks, content: str | None, why: str) -> None:
    folder = tasks.container("c1c1", "peer", PEER, "0.log")
    config = folder / "config.json"
    whole = config.read_text()
    config.unlink()
    if content is None:
        config.mkdir()
    else:
        config.write_text(content)
    discovery = tasks.discovery()
    assert [discovery.found().problems for _ in range(ENDING - 1)] == [{}] * (ENDING - 1)  # it may be being written
    for _ in range(2):
        assert why in discovery.found().problems["container c1c1"]
    with unlisted(tasks.state / "vanishing"):
        assert "container c1c1" in discovery.found().problems
    if content is None:
        config.rmdir()
    config.write_text(whole)
    found = discovery.found()
    assert ([one.name for one in found.components], found.problems) == (["peer0/peer"], {})


def test_a_folder_without_a_configuration_is_no_task(tasks: Tasks) -> None:
    (tasks.state / "k8s.io" / "left").mkdir()
    discovery = tasks.discovery()
    assert [discovery.found().problems for _ in range(2 * ENDING)] == [{}] * (2 * ENDING)


def test_processes_of_another_pid_namespace_are_said(tasks: Tasks, tmp_path: Path) -> None:
    """As for a daemon in a container without `--pid host`, which sees none of theirs."""
    tasks.container("c1c1", "peer", PEER, "0.log")
    pid = tasks.processes[-1].pid
    (tmp_path / "proc").mkdir()
    discovery = tasks.discovery(proc=tmp_path / "proc")
    assert [discovery.found().problems for _ in range(ENDING - 1)] == [{}] * (ENDING - 1)  # it may be taken away
    for _ in range(2):
        found = discovery.found()
        assert (found.components, list(found.problems)) == ((), ["container peer0/peer"])
        assert f"its process {pid} cannot be seen" in found.problems["container peer0/peer"]
    (tmp_path / "proc" / str(pid)).symlink_to(f"/proc/{pid}")
    assert [one.name for one in discovery.found().components] == ["peer0/peer"]
    assert discovery.found().problems == {}


def test_a_task_that_has_ended_and_stays_is_read_once_and_taken_up_when_it_is_started_anew(
    tasks: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_of, read = containerd.config_of, []

    def counted(task: Path) -> dict[str, Any]:
        read.append(task)
        return config_of(task)

    monkeypatch.setattr(containerd, "config_of", counted)
    folder = tasks.container("c1c1", "peer", PEER, "0.log", sandbox_namespace="org1")
    host = tmp_path / "proc"
    (host / "2").mkdir(parents=True)
    (host / "2" / "comm").write_text("kthreadd\n")
    discovery = tasks.discovery(proc=host)
    for _ in range(2 * ENDING):
        found = discovery.found()
        assert (found.components, found.problems) == ((), {})
    assert read.count(folder) == 1
    pid = tasks.processes[-1].pid
    (host / str(pid)).symlink_to(f"/proc/{pid}")
    assert [one.name for one in discovery.found().components] == ["org1/peer0/peer"]


def test_a_process_that_is_not_in_its_group_yet_is_looked_at_again(tasks: Tasks) -> None:
    folder = tasks.container("c1c1", "peer", PEER, "0.log")
    (tasks.parent / "elsewhere").mkdir()
    (tasks.parent / "elsewhere" / "cgroup.procs").write_text((folder / "init.pid").read_text())
    discovery = tasks.discovery()
    assert "does not name the container" in discovery.found().problems["container peer0/peer"]
    (tasks.parent / "c1c1" / "cgroup.procs").write_text((folder / "init.pid").read_text())
    found = discovery.found()
    assert ([one.name for one in found.components], found.problems) == (["peer0/peer"], {})


def test_a_process_that_may_not_be_looked_at_hides_no_other(tasks: Tasks, tmp_path: Path) -> None:
    tasks.container("c1c1", "peer", PEER, "0.log")
    hidden = tasks.processes[-1].pid
    tasks.container("d2d2", "orderer", PEER.replace("peer", "orderer"), "0.log")
    proc = tmp_path / "proc"
    (proc / str(hidden) / "cgroup").mkdir(parents=True)
    (proc / str(tasks.processes[-1].pid)).symlink_to(f"/proc/{tasks.processes[-1].pid}")
    found = tasks.discovery(proc=proc).found()
    assert [one.name for one in found.components] == ["peer0/orderer"]
    assert found.problems == {"container peer0/peer": "it cannot be looked at: Is a directory"}


@pytest.mark.parametrize(
    "folder", ["/" + "x" * 300, "/x" * 3000, "/a\0b", "/proc/self/status"], ids=["name", "path", "zero", "file"]
)
def test_a_log_that_no_path_leads_to_is_not_known(tasks: Tasks, folder: str) -> None:
    tasks.task("c1c1", "container", {"io.qioi.role": "peer", f"{CRI}container-name": "peer",
                                     f"{CRI}sandbox-log-directory": folder})  # fmt: skip
    found = tasks.discovery().found()
    assert [one.log for one in found.components] == [None]
    assert "its log is not known" in found.problems["container peer0/peer"]
