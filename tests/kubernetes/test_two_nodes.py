"""Peers on one node, orderers on another: two kubelets, and a daemon for each with the rights that deploy/k8s gives."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from demo_k8s.control_plane import until
from demo_k8s.host import CPU
from demo_k8s.node import NODE, OTHER
from demo_k8s.objects import add_policy, install_kind
from k8s_install import ROOT, whole_node
from k8s_node import Node
from k8s_policy import shares
from k8s_policy_objects import policy_status
from ports import free_ports
from waiting import DIES_WITH_TEST, PATIENCE

from qioi.kubernetes.remote import FORGET
from qioi.show.http import UnreachableError, get_json

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(600)]
PEER_SHARES = 102  # of a request of 100m


class NodeDaemon:
    """The daemon of one node, as a process of this machine with the service account's token."""

    def __init__(self, node: Node, token: Path) -> None:
        self._folder = node.folder / f"daemon-{node.name}"
        self._folder.mkdir(exist_ok=True)
        self.state = self._folder / "state"
        cluster = {"node": node.name, "server": node.plane.server, "ca": str(node.plane.ca), "token": str(token),
                   "cgroup_root": node.root, "logs": str(node.logs)}  # fmt: skip
        (self._folder / "qioi.yaml").write_text(
            yaml.safe_dump({"kubernetes": cluster, "state_dir": str(self.state), "metrics": {"port": 0}})
        )
        command = [*DIES_WITH_TEST, sys.executable, "-m", "qioi.cli", "run", "-c", str(self._folder / "qioi.yaml")]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, cwd=ROOT)
        until(self.status, "it answers")

    def status(self) -> dict[str, Any] | None:
        assert self._process.poll() is None, self.log()
        try:
            return dict(get_json(self.state / "qioi.sock", "/status"))
        except UnreachableError:
            return None

    def log(self) -> str:
        return (self._folder / "log").read_text()

    def tell(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Have a failure show what the daemon has said."""
        if error is not None:
            error.add_note(self.log()[-2000:])

    def end(self, number: int = signal.SIGTERM) -> int:
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            return self._process.wait(timeout=PATIENCE)
        finally:
            self._process.kill()


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Node, Node]]:
    with whole_node(free_ports()) as first:
        second = Node(Path(tempfile.mkdtemp(prefix="qioi-node-")), free_ports(), beside=first)
        try:
            second.start()
            yield first, second
        finally:
            second.close()


@pytest.fixture
def token(nodes: tuple[Node, Node], tmp_path: Path) -> Path:
    """Install policies' kind and the daemon's rights; give its token."""
    plane = nodes[0].plane
    base = ROOT / "deploy/k8s/base"
    plane.kubectl("apply", "-f", base / "namespace.yaml", "-f", base / "rbac.yaml")
    install_kind(plane)
    asked = {"spec": {"expirationSeconds": 3600}}
    answer = plane.call("POST", "/api/v1/namespaces/qioi/serviceaccounts/qioi/token", asked)
    (tmp_path / "token").write_text(answer["status"]["token"])
    return tmp_path / "token"


def test_a_node_of_orderers_acts_on_what_the_peers_node_sees(nodes: tuple[Node, Node], token: Path) -> None:
    first, second = nodes
    first.run_pod("peer0", ["peer", "payments", "20"], labels={"qioi.io/role": "peer"})
    second.run_pod("orderer0", ["pause"], labels={"qioi.io/role": "orderer"})
    for node, name in ((first, "hog0"), (second, "hog1")):
        node.run_pod(name, ["hog"], cpu="50m")
    until(lambda: all(map(first.running, ("peer0", "orderer0", "hog0", "hog1"))), "peer, orderer and hogs run")
    peer, _ = first.groups("peer0")
    orderer, _ = second.groups("orderer0")
    top = CPU / second.root  # what stands beside it, the other node's pods, is foreign work too: it may be raised there
    assert orderer.is_relative_to(top)
    found = (shares(top), shares(orderer))

    def is_raised() -> bool:
        return any(now > 2 * before for now, before in zip((shares(top), shares(orderer)), found, strict=True))

    def is_as_found() -> bool:
        return (shares(top), shares(orderer)) == found

    add_policy(first.plane, "default", "pay", channel="payments", law="proportional", threshold=10000)

    def said(what: str) -> dict[str, dict[str, Any]]:
        found = policy_status(first.plane, "default", "pay").get(what, ())
        return {one["name"]: one for one in found}

    def seen() -> float | None:
        """The rate that the orderers' node goes by."""
        told = there.status() or {"channels": []}
        return next((one["throughput"] for one in told["channels"]), None)

    with ExitStack() as stack:
        there = NodeDaemon(second, token)
        stack.callback(there.end)
        stack.push(there.tell)
        until(lambda: set(said("nodes")) == {OTHER}, "the orderers' node has spoken")
        assert "throughput" not in said("nodes")[OTHER]
        assert seen() is None
        assert is_as_found()
        here = NodeDaemon(first, token)
        stack.callback(here.end)
        stack.push(here.tell)
        until(lambda: shares(peer) > 300, "the peer is raised")
        until(is_raised, "and so is the orderer, by a rate that its node does not see itself")
        until(lambda: seen(), "that rate is shown")
        until(lambda: set(said("nodes")) == {NODE, OTHER}, "both have spoken")
        assert said("nodes")[NODE]["throughput"] > 0
        assert "throughput" not in said("nodes")[OTHER]
        until(lambda: {one["node"] for one in said("components").values()} == {NODE, OTHER}, "each of its own pod")
        assert said("components")["orderer0"]["node"] == OTHER
        here.end(signal.SIGKILL)  # its node is lost, and nothing is taken back
        until(is_as_found, "what is stale counts no more", patience=3 * FORGET)
        assert shares(peer) > 300
        again = NodeDaemon(first, token)
        stack.callback(again.end)
        until(is_raised, "the node is back, and heard")
        assert (again.end(), there.end()) == (0, 0)
        assert shares(peer) == PEER_SHARES
        assert is_as_found()
        until(lambda: not said("nodes"), "both have taken back what they have said")
