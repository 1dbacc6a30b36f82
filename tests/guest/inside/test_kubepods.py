"""The daemon of a node: groups and weights as a kubelet makes them, by either of its drivers, under a real systemd.

There is no kubelet in the guest, and no API server: what they would say is said by a few lines here, and the units are
made by the calls to systemd that kubelet and runc make (runc's libcontainer/cgroups/systemd). Discovery, the choice of
the level, the kernel's weights, systemd and the way back are real.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from running import Site, end, until
from waiting import remove_group

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "kubernetes"))
from k8s_objects import pod_object, policy_object

from qioi.discovery.unit_records import FOLDERS
from qioi.discovery.weights import linear, quadratic
from qioi.kernel.hierarchy import find_hierarchy
from qioi.kubernetes.cgroups import Driver, Layout, Qos
from qioi.model.groups import chain
from qioi.show.http import get_json

#: What a request of 100m makes: the kubelet's own formula for the pod's group, newer runcs' for the container's.
SHARES = 102
VERSION = find_hierarchy().version
POD, CONTAINER = (linear(SHARES), quadratic(SHARES)) if VERSION == 2 else (SHARES, SHARES)
KEY, DEFAULT = ("CPUWeight", 100) if VERSION == 2 else ("CPUShares", 1024)
#: Of all pods' group; little, so that the hog leaves this test most of the one processor of an emulated machine.
PODS = DEFAULT // 5
MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


class Answers(BaseHTTPRequestHandler):
    """One policy, two pods, and nothing that changes."""

    protocol_version = "HTTP/1.1"
    pods: list[dict[str, Any]]
    said: list[dict[str, Any]]
    ended = threading.Event()

    def do_GET(self) -> None:
        policies = [policy_object(law="proportional", threshold=10000)]
        if "watch=true" in self.path:
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.ended.wait()
            self.close_connection = True
        else:
            items = policies if "isolationpolicies" in self.path else self.pods
            self.answer({"items": items, "metadata": {"resourceVersion": "1"}})

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.said.append(body)
        self.answer(body)

    def do_POST(self) -> None:
        self.do_PATCH()

    def answer(self, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Node:
    """A kubelet's tree, and work in it."""

    def __init__(self, site: Site, driver: Driver) -> None:
        self.site, self.hierarchy, self.driver = site, site.hierarchy, driver
        self.layout = Layout(driver)
        # Names of each test's own, as a kubelet's are: systemd may keep a unit that has ended for a while.
        uids = {name: str(uuid.uuid4()) for name in ("peer0", "hog0")}
        ids = {name: f"containerd://{uuid.uuid4().hex * 2}" for name in uids}
        self.pods = {name: self.layout.pod(uid, Qos.BURSTABLE) for name, uid in uids.items()}
        self.containers = {name: self.layout.container(uid, Qos.BURSTABLE, ids[name]) for name, uid in uids.items()}
        Answers.pods = [pod_object("peer0", uid=uids["peer0"], labels={"qioi.io/role": "peer"}),
                        pod_object("hog0", uid=uids["hog0"])]  # fmt: skip
        for pod in Answers.pods:
            pod["status"]["containerStatuses"][0]["containerID"] = ids[pod["metadata"]["name"]]
        self.log = site.folder / f"fab_peer0_{uids['peer0']}/main/0.log"
        self.log.parent.mkdir(parents=True)
        self.log.touch()
        self.blocks = 0
        code = {"peer0": "import time\nwhile True: time.sleep(0.01)", "hog0": "while 1: 0"}
        self.work = {name: subprocess.Popen([sys.executable, "-c", text]) for name, text in code.items()}
        for name, work in self.work.items():
            self._make_units(name, work.pid) if driver is Driver.SYSTEMD else self._make_groups(name, work.pid)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.daemon_threads = True
        Answers.said, Answers.ended = [], threading.Event()
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        cluster = {"server": f"http://127.0.0.1:{self.server.server_port}", "node": "n", "logs": str(site.folder)}
        self.config = {"kubernetes": cluster, "state_dir": str(site.state), "period": 0.5, "metrics": {"port": 0}}

    def _make_groups(self, name: str, pid: int) -> None:
        container = self.containers[name]
        for group in reversed(chain(container)):
            folder = self.hierarchy.folder(group)
            folder.mkdir(exist_ok=True)
            if self.hierarchy.version == 2 and group != container:
                (folder / "cgroup.subtree_control").write_text("+cpu")
        self.file(self.layout.pods()).write_text(str(PODS))
        self.file(self.pods[name]).write_text(str(POD))
        self.file(container).write_text(str(CONTAINER))
        (self.hierarchy.folder(container) / "cgroup.procs").write_text(str(pid))

    def _make_units(self, name: str, pid: int) -> None:
        scope, *slices = map(unit_of, chain(self.containers[name]))
        weights = {slices[0]: POD, slices[-1]: PODS}
        for one in reversed(slices):
            start_unit(one, ("CPUAccounting", "b", "true"), (KEY, "t", str(weights.get(one, DEFAULT))))
        start_unit(scope, ("Slice", "s", slices[0]), ("Delegate", "b", "true"), ("PIDs", "au", "1", str(pid)),
                   ("CPUAccounting", "b", "true"), (KEY, "t", str(CONTAINER)))  # fmt: skip
        file = self.file(self.containers[name])
        until(lambda: file.exists() and int(file.read_text()) == CONTAINER)  # it is a job of systemd's

    def file(self, group: str) -> Path:
        return self.hierarchy.folder(group) / self.hierarchy.file

    def groups(self) -> list[str]:
        """Those on the way to the peer and to the hog, the innermost first."""
        groups = {*chain(self.containers["peer0"]), *chain(self.containers["hog0"])}
        return sorted(groups, key=lambda group: -group.count("/"))

    def units(self) -> list[str]:
        """All of them, the innermost first."""
        return [unit_of(group) for group in self.groups()]

    def record(self) -> dict[str, str]:
        """What systemd says of its units."""
        return {unit: shown(unit) for unit in self.units()}

    def start(self, **environment: str) -> subprocess.Popen[str]:
        config = self.site.folder / "qioi.yaml"
        config.write_text(json.dumps(self.config))
        process = subprocess.Popen(self.site.command("run", "-c", str(config)), stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **environment})  # fmt: skip
        self.site.processes.append(process)
        until(lambda: self.site.status() is not None)
        return process

    def weights(self) -> dict[str, int]:
        """Give the weight of every group that is there."""
        return {group: int(self.file(group).read_text()) for group in self.groups() if self.file(group).exists()}

    def raised(self) -> list[str]:
        """Which of the peer's levels are: it depends on where the host's other work is."""
        weights = self.weights()
        found = {self.pods["peer0"]: POD, self.containers["peer0"]: CONTAINER}
        return [group for group, weight in found.items() if weights[group] >= 3 * weight]

    def commit(self) -> None:
        """Write a commit's line to the peer's log; a peer that commits nothing more is let go after a while."""
        self.blocks += 1
        now = datetime.now(UTC)
        line = (
            f"{now:%Y-%m-%d %H:%M:%S.000} UTC 002b INFO [kvledger] commit -> [payments] "
            f"Committed block [{self.blocks}] with 1 transaction(s) in 1ms (state_validation=0ms "
            "block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]"
        )
        with self.log.open("a") as log:
            log.write(f"{now:%Y-%m-%dT%H:%M:%S.%fZ} stderr F {line}\n")

    def commit_until(self, condition: Callable[[], object]) -> None:
        """Commit, far below the threshold, until something is true; or say what the daemon thinks of it."""

        def step() -> object:
            self.commit()
            return condition()

        try:
            until(step, pause=0.1)
        except AssertionError:
            told = get_json(self.site.socket, "/explain", component="fab/peer0")
            raise AssertionError(f"{self.weights()}, on record {self.record()}: {told}") from None

    def is_told(self) -> bool:
        """Whether systemd has what is in force on its record, wherever the peer is raised."""
        raised, weights = self.raised(), self.weights()
        return bool(raised) and all(shown(unit_of(group)) == str(weights[group]) for group in raised)

    def remove(self, name: str) -> None:
        """Have a pod end, and its groups go."""
        self.work[name].kill()
        self.work[name].wait()
        if self.driver is Driver.SYSTEMD:
            subprocess.run(["systemctl", "-q", "stop", *map(unit_of, (self.containers[name], self.pods[name]))],
                           stderr=subprocess.DEVNULL, check=False)  # fmt: skip
            until(lambda: not self.file(self.pods[name]).exists())
        else:
            for group in (self.containers[name], self.pods[name]):
                remove_group(self.hierarchy.folder(group))

    def close(self) -> None:
        Answers.ended.set()
        self.server.shutdown()
        self.server.server_close()
        for one in self.work.values():
            one.kill()
            one.wait()
        if self.driver is Driver.SYSTEMD:
            subprocess.run(["systemctl", "-q", "stop", *self.units()[:-2]], stderr=subprocess.DEVNULL, check=False)
        else:
            for group in filter(lambda group: self.file(group).exists(), self.groups()):
                remove_group(self.hierarchy.folder(group))


def unit_of(group: str) -> str:
    """Name the unit that has a group."""
    return group.rpartition("/")[2]


def start_unit(name: str, *properties: tuple[str, ...]) -> None:
    """Have systemd make a unit that is in no file; one that is there already stays."""
    if subprocess.run(["systemctl", "-q", "is-active", name], check=False).returncode == 0:
        return
    words = [word for one in properties for word in one]
    call = ["busctl", "call", *MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", name, "replace"]
    subprocess.run([*call, str(len(properties)), *words, "0"], stdout=subprocess.DEVNULL, check=True)


def shown(unit: str) -> str:
    """What systemd says of a unit's share."""
    done = subprocess.run(["systemctl", "show", unit, "-P", KEY], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def left(node: Node) -> list[Path]:
    """Files of systemd's in which a share of ours could have stayed."""
    folders = (one / f"{unit}.d" for one in FOLDERS for unit in node.units())
    return [file for folder in folders for file in folder.glob("50-CPU*.conf")]


@pytest.fixture(params=list(Driver))
def node(site: Site, request: pytest.FixtureRequest) -> Iterator[Node]:
    node = Node(site, request.param)
    yield node
    node.close()


def test_a_pod_is_raised_beside_another_one_and_put_back(node: Node, site: Site) -> None:
    found = node.weights()
    process = node.start()
    node.commit_until(node.raised)
    raised, now = node.raised(), node.weights()
    assert {group for group, weight in now.items() if weight != found[group]} == set(raised)
    told = get_json(site.socket, "/explain", component="fab/peer0")
    assert set(told["acted_at"]) == set(raised)
    assert told["actuator"].startswith("files; Burstable pod, moved at: ")
    until(lambda: any("components" in one.get("status", {}) for one in Answers.said))
    entry = next(one for one in Answers.said if "components" in one.get("status", {}))["status"]["components"][0]
    assert (entry["name"], entry["actuator"], entry["original"]) == ("peer0", "files", 1024 if VERSION == 2 else SHARES)
    code, text = end(process)
    assert code == 0, text
    assert node.weights() == found
    assert not (site.state / "journal").exists()


@pytest.mark.parametrize("restorer", ["restore", "start"])
def test_after_a_kill_everything_comes_back(node: Node, site: Site, restorer: str) -> None:
    found = node.weights()
    process = node.start()
    node.commit_until(node.raised)
    end(process, signal.SIGKILL)
    assert node.weights() != found
    if restorer == "restore":
        done = site.qioi("restore", "--state-dir", str(site.state))
        assert done.returncode == 0, done.stderr
    else:
        code, text = end(node.start())  # its channel's throughput is not known yet, so it raises nothing itself
        assert code == 0, text
    assert node.weights() == found
    assert not (site.state / "journal").exists()


@pytest.mark.parametrize("killed", [False, True])
def test_a_pod_that_goes_while_it_is_raised_is_no_obstacle(node: Node, site: Site, killed: bool) -> None:
    """Its groups go at once; the API server may go on naming it for a while."""
    found, files = node.weights(), left(node)
    process = node.start()
    node.commit_until(node.raised)
    if killed:
        end(process, signal.SIGKILL)
    node.remove("peer0")
    if killed:
        done = site.qioi("restore", "--state-dir", str(site.state))
        code, text = done.returncode, done.stdout + done.stderr
    else:
        until(lambda: all(one["share"] is None for one in get_json(site.socket, "/status")["components"]))
        code, text = end(process)
    assert code == 0, text
    assert node.weights() == {group: weight for group, weight in found.items() if node.file(group).exists()}
    assert set(left(node)) <= set(files)
    assert not (site.state / "journal").exists()


@pytest.mark.parametrize("node", [Driver.SYSTEMD], indirect=True)
@pytest.mark.parametrize("killed", [False, True])
def test_systemd_is_told_so_that_a_reload_undoes_nothing(node: Node, site: Site, killed: bool) -> None:
    found, record, files = node.weights(), node.record(), left(node)
    process = node.start()
    node.commit_until(node.raised)
    node.commit_until(node.is_told)
    for _ in range(3):
        subprocess.run(["systemctl", "daemon-reload"], check=True)
    node.commit_until(node.is_told)
    if killed:
        end(process, signal.SIGKILL)
        done = site.qioi("restore", "--state-dir", str(site.state))
        code, text = done.returncode, done.stdout + done.stderr
    else:
        code, text = end(process)
    assert code == 0, text
    assert "somebody else" not in text
    assert (node.weights(), node.record(), left(node)) == (found, record, files)
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    assert (node.weights(), node.record()) == (found, record)


@pytest.mark.parametrize("node", [Driver.SYSTEMD], indirect=True)
def test_what_a_reload_has_undone_is_done_again_where_systemd_cannot_be_told(node: Node, site: Site) -> None:
    """As in a pod, which has no way to the node's D-Bus."""
    found, record, files = node.weights(), node.record(), left(node)
    process = node.start(DBUS_SYSTEM_BUS_ADDRESS="unix:path=/none")
    node.commit_until(node.raised)
    assert node.record() == record
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    node.commit_until(node.raised)
    code, text = end(process)
    assert code == 0, text
    assert "reloads: systemd is not told of shares, and undoes them: " in text
    assert (node.weights(), node.record(), left(node)) == (found, record, files)
