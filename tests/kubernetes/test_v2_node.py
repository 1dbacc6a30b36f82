"""A whole node with cgroup v2 and the systemd driver: QiOi as it is installed, on a kubelet in an emulated machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from demo_k8s.control_plane import ControlPlane, lacking
from demo_k8s.tools import NRI_TOOLS, TOOLS
from k8s_guest import GUEST, GUESTS_HOST, NodeOfV2, UnavailableError, node_of_v2
from k8s_install import rendered
from k8s_policy import PAY, chosen, entry, write_policy
from ports import free_ports

from qioi.kubernetes.requests import ORIGINAL_ANNOTATION, milli

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(1200)]
BURSTABLE = "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice"
PLACES = ("/usr", "/lib", "/lib64", "/bin", "/opt")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeOfV2]:
    """One boot for all: the most of their time."""
    why = lacking([*(name for name in TOOLS if name != "helm"), *NRI_TOOLS], ["etcd", "openssl", "go", "runc"])
    if why:
        pytest.skip(why)
    plane = ControlPlane(Path(tempfile.mkdtemp(prefix="qioi-k8s-")), free_ports())
    plane.add_user(f"system:node:{GUEST}", "system:nodes")
    try:
        plane.start()
        plane.start_controllers()
        with node_of_v2(plane, tmp_path_factory.mktemp("guest")) as node:
            node.wait(lambda: node.plane.is_node_ready(GUEST), "the node is ready")
            yield node
    except UnavailableError as error:
        pytest.skip(f"no guest here: {error}")
    finally:
        plane.close()


@contextmanager
def installed(node: NodeOfV2, folder: str) -> Iterator[None]:
    """Install a folder of deploy/k8s, where nothing is left of a former one; then let it go, and the tests' pods."""
    node.wait(lambda: not daemons(node) and not pods_of(node, "default"), "nothing is left")
    documents = rendered(node.plane, folder, PLACES, "/usr/bin/python3", GUESTS_HOST, "/opt/source:/opt/site")
    node.plane.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))
    try:
        node.wait(lambda: said(node, "INFO watching"), "the daemon has begun")  # slowly, beside hogs
        yield
    finally:
        remove_daemon(node)
        node.plane.kubectl("delete", "isolationpolicies,pods", "-n", "default", "--all", "--wait=false")


def pods_of(node: NodeOfV2, namespace: str) -> list[dict[str, Any]]:
    return list(node.plane.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"])


def daemons(node: NodeOfV2) -> list[str]:
    """Give the folders of the daemons' logs."""
    found = (one["metadata"] for one in pods_of(node, "qioi"))
    return [f"/var/log/pods/qioi_{one['name']}_{one['uid']}/qioi" for one in found]


def said(node: NodeOfV2, text: str) -> bool:
    """Whether the daemon has, or one before it in its pod."""
    return any(node.do(f"grep -hqs '{text}' {folder}/*.log && echo yes") == "yes" for folder in daemons(node))


def remove_daemon(node: NodeOfV2) -> None:
    node.plane.kubectl("delete", "daemonset", "qioi", "-n", "qioi", "--ignore-not-found", "--wait=false")


def delete_policy(node: NodeOfV2) -> None:
    node.plane.call("DELETE", PAY)


class Peer:
    """A peer's pod, its group and its container's. (Its class's is the kubelet's, and moves with every pod.)"""

    def __init__(self, node: NodeOfV2, name: str, **options: Any) -> None:
        self.node, self.name = node, name
        node.run_pod(name, ["peer", "payments", "10"], labels={"qioi.io/role": "peer"}, **options)
        node.wait(lambda: node.running(name), "the peer runs")
        pod = node.pod(name)
        (main,) = (one for one in pod["status"]["containerStatuses"] if one["name"] == "main")
        self.number = main["containerID"].removeprefix("containerd://")
        self.scope = f"cri-containerd-{self.number}.scope"
        folder = f"{BURSTABLE}/kubepods-burstable-pod{pod['metadata']['uid'].replace('-', '_')}.slice"
        self.pod, self.container = folder, f"{folder}/{self.scope}"
        self.found = self.seen()

    def seen(self) -> tuple[int, ...]:
        """Give the weights of the pod and of the container."""
        return tuple(map(int, self.node.do(f"cat {self.pod}/cpu.weight {self.container}/cpu.weight").split()))

    def times(self) -> tuple[float, ...]:
        """Say how many times what they were found with they have."""
        return tuple(now / found for now, found in zip(self.seen(), self.found, strict=True))

    def is_as_found(self) -> bool:
        return bool(self.seen() == self.found)

    def record(self) -> str:
        """Give the shares that containerd itself has on record of the container, and the weight that systemd has."""
        shares = f"ctr -n k8s.io containers info {self.number} | grep -o '\"shares\": [0-9]*'"
        return self.node.do(f"{shares}; systemctl show -P CPUWeight {self.scope}")

    def request(self) -> str:
        return str(self.node.pod(self.name)["spec"]["containers"][0]["resources"]["requests"]["cpu"])

    def original(self) -> str | None:
        return (self.node.pod(self.name)["metadata"].get("annotations") or {}).get(ORIGINAL_ANNOTATION)


def run_hogs(node: NodeOfV2) -> None:
    """One for each processor."""
    for name in ("hog0", "hog1"):
        node.run_pod(name, ["hog"], cpu="50m")
    node.wait(lambda: all(map(node.running, ("hog0", "hog1"))), "the hogs run")


def restart_kubelet(node: NodeOfV2) -> None:
    """Restart it, and wait until it has done some work."""
    node.do("systemctl restart kubelet")
    node.run_pod("after", ["pause"], cpu="10m")
    node.wait(lambda: node.running("after"), "the kubelet does its work")


def test_files_are_written_and_put_back(node: NodeOfV2) -> None:
    with installed(node, "base"):
        peer = Peer(node, "peer0")
        run_hogs(node)
        write_policy(node)
        node.wait(lambda: peer.times()[0] >= 2, "the pod's weight is raised")
        assert peer.times()[1] == 1
        told = node.wait(lambda: entry(node), "the status tells")
        assert (told["level"], told["actuator"], told["qosClass"]) == ("pod", "files", "Burstable")
        assert "cpu.weight of containers and pods, cgroup v2" in chosen(node)
        node.do("systemctl daemon-reload")
        node.wait(lambda: said(node, "is as it was found: by systemd"), "a reload has undone it")
        node.wait(lambda: peer.times()[0] >= 2, "it is done again")
        remove_daemon(node)
        node.wait(lambda: not daemons(node), "the daemon has ended")
        assert peer.is_as_found()
        assert node.do("ls /run/qioi/journal").endswith("No such file or directory")


def test_nri_keeps_group_and_records_alike(node: NodeOfV2) -> None:
    with installed(node, "overlays/nri"):
        # With a hog in its own pod: they compete as containers, and there the record counts.
        peer = Peer(node, "peer0", cpu="700m", limit="4", beside=["hog"])
        before = peer.record()
        assert before == f'"shares": 716 {peer.found[1]}'
        write_policy(node, bounds={"floor": 3000, "ceiling": 3000})
        node.wait(lambda: chosen(node).startswith("nri: containerd"), "what was chosen is said in the status")
        weight = round(peer.found[1] * 3000 / 1024)
        node.wait(lambda: peer.seen()[1] == weight, "the container's weight is raised")
        node.wait(lambda: peer.record().endswith(f" {weight}"), "systemd has been told by containerd")
        record = peer.record()
        node.wait(lambda: entry(node).get("actuator") == "nri", "the status tells")
        restart_kubelet(node)
        node.do("systemctl daemon-reload")
        assert peer.seen()[1] == weight
        assert peer.record() == record != before
        node.wait(lambda: "problem" not in entry(node), "nothing is given up")
        remove_daemon(node)
        node.wait(lambda: peer.is_as_found() and peer.record() == before, "group and records are as they were found")


def test_requests_are_moved_and_the_kubelet_has_systemd_write_the_weights(node: NodeOfV2) -> None:
    with installed(node, "overlays/resize"):
        peer = Peer(node, "peer0")
        run_hogs(node)
        before = peer.record()
        write_policy(node, resize=True)
        node.wait(lambda: chosen(node).startswith("resize: requests of pods"), "what was chosen is said")
        node.wait(lambda: min(peer.times()) >= 2, "the kubelet has raised pod and container")
        assert peer.original() == "100m"
        assert 400 <= (milli(peer.request()) or 0) <= 500  # five times, as Algorithm 1 has it
        told = node.wait(lambda: entry(node) if entry(node).get("actuator") == "resize" else None, "the status tells")
        assert told is not None
        assert told["level"] == "pod, container"
        restart_kubelet(node)
        node.do("systemctl daemon-reload")
        assert min(peer.times()) >= 2
        assert node.pod("peer0")["status"]["containerStatuses"][0]["restartCount"] == 0
        delete_policy(node)
        node.wait(lambda: (peer.request(), peer.original()) == ("100m", None), "the request is as it was")
        node.wait(lambda: peer.is_as_found() and peer.record() == before, "all is as it was found")
