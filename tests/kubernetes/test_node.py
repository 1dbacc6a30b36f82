"""QiOi as it is installed, on a whole real node: the DaemonSet's own manifest, real pods, real control groups."""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from demo_k8s.control_plane import until
from demo_k8s.host import CPU
from demo_k8s.node import NODE
from demo_k8s.objects import policy_path
from k8s_install import (
    METRICS,
    daemon_pod,
    daemon_runs,
    install,
    installation,
    kill_daemon,
    log,
    uninstall,
    whole_node,
)
from k8s_node import Node, stop_server
from k8s_policy import PAY, shares, status, write_policy
from k8s_policy_objects import change_policy, policy_status
from ports import free_ports

from qioi.daemon.own_shares import OWN_SHARES
from qioi.kubernetes.cgroups import Qos
from qioi.show.http import RefusedError, get_json

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with whole_node(free_ports()) as node:
        yield node


@pytest.fixture(scope="module")
def daemon(node: Node) -> Node:
    install(node)
    return node


@pytest.fixture
def peer(daemon: Node) -> Iterator[tuple[Path, Path]]:
    """A peer beside two hogs, and a policy that speaks of it; give its pod's and its container's groups."""
    node = daemon
    names = ["peer0", "hog0", "hog1"]
    node.run_pod("peer0", ["peer", "payments", "20"], labels={"qioi.io/role": "peer"})
    for name in names[1:]:
        node.run_pod(name, ["hog"], cpu="50m")
    until(lambda: all(node.running(name) for name in names), "peer and hogs run")
    write_policy(node)
    try:
        yield node.groups("peer0")
    finally:
        node.plane.kubectl("delete", "isolationpolicies", "-n", "default", "--all")
        for name in names:
            node.plane.kubectl("delete", "pod", name, "-n", "default", "--ignore-not-found", "--grace-period=0",
                               "--force")  # fmt: skip
        until(lambda: is_forgotten(*names), "they are forgotten")


def metrics(family: str) -> list[str]:
    """Ask the daemon for one family's lines."""
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS}/metrics", timeout=10) as answer:
        return [line for line in answer.read().decode().splitlines() if line.startswith(f"{family}{{")]


def verbs() -> set[str]:
    """Name the verbs that the daemon has asked the API server with; counted until its last period."""
    counted = metrics("qioi_kubernetes_requests_total")
    return {verb for one in counted for verb in re.findall(r'verb="(\w+)"', one)}


def daemon_view() -> list[str]:
    return metrics("qioi_component_shares")


def left_alone() -> list[str]:
    """Name the components whose share somebody else has changed, as the daemon sees it."""
    return [line for line in metrics("qioi_component_taken") if not line.endswith(" 0.0")]


def is_forgotten(*names: str) -> bool:
    """Whether there is a daemon, and it knows none of these pods."""
    with suppress(URLError):  # refused while the daemon's pod is replaced
        return not any(one in str(daemon_view()) for one in names)
    return False


def events(node: Node) -> set[str]:
    found = node.plane.call("GET", "/api/v1/namespaces/default/events")["items"]
    return {one["reason"] for one in found if one["source"].get("component") == "qioi"}


def test_nobody_but_the_api_server_speaks_to_the_kubelet(node: Node) -> None:
    """It listens where other machines reach it, and would run any command in any pod."""
    unknown = ssl.create_default_context()
    unknown.check_hostname, unknown.verify_mode = False, ssl.CERT_NONE  # its certificate is its own
    with pytest.raises(HTTPError, match="401"):
        urllib.request.urlopen(f"https://{node.address}:{node.port + 5}/pods", context=unknown, timeout=30)


def test_a_policys_life(daemon: Node, peer: tuple[Path, Path]) -> None:
    pod, container = peer
    until(lambda: shares(pod) > 300, "the pod is raised where it competes")
    assert shares(pod.parent) < 1000  # the class's own group is the kubelet's
    until(lambda: [one["level"] for one in status(daemon).get("components", ())] == ["pod"], "the status tells")
    (seen,) = status(daemon)["components"]
    assert (seen["name"], seen["original"], seen["node"]) == ("peer0", 102, NODE)
    until(lambda: status(daemon).get("throughput"), "the rate is seen in the pod's log")
    assert status(daemon)["threshold"] == 10000
    assert "InterferenceDetected" in until(lambda: events(daemon), "an event is on the pod")
    (joined,) = metrics("qioi_pod_info")
    for label in ('component="default/peer0"', 'namespace="default"', 'pod="peer0"', 'qos="Burstable"', 'level="pod"'):
        assert label in joined
    until(lambda: verbs() >= {"list", "watch", "apply", "post"}, "the requests are counted")
    write_policy(daemon, "twin", threshold=1)
    (verdict,) = until(
        lambda: policy_status(daemon.plane, "default", "twin").get("conditions"),
        "a second one is judged",
    )
    assert (verdict["status"], verdict["reason"]) == ("False", "ChannelTaken")
    assert shares(pod) > 300  # the first goes on
    daemon.plane.call("DELETE", policy_path("default", "twin"))
    change_policy(daemon.plane, "default", "pay", dryRun=True)
    until(lambda: shares(pod) == 102 and shares(container) == 102, "a dry run touches nothing")
    change_policy(daemon.plane, "default", "pay", dryRun=False, bounds={"floor": 2048})
    until(lambda: shares(pod) >= 2048, "the floor holds")
    daemon.plane.call("DELETE", PAY)
    until(lambda: shares(pod) == 102 and shares(container) == 102, "without a policy all is as it was found")


#: Request and limit of a container whose pod is to be of a class.
RESOURCES: dict[Qos, tuple[str | None, str | None]] = {
    Qos.GUARANTEED: ("500m", "500m"), Qos.BURSTABLE: ("100m", None), Qos.BEST_EFFORT: (None, None),
}  # fmt: skip


@pytest.mark.parametrize("beside", list(Qos))
@pytest.mark.parametrize("qos", list(Qos))
def test_the_level_that_matters_is_shown(daemon: Node, qos: Qos, beside: Qos) -> None:
    """A peer of each class beside hogs of each class; the pods of one class are never siblings of another's."""
    names = [f"{qos}-beside-{beside}-{what}".lower() for what in ("peer", "hog0", "hog1")]
    for name, args, (cpu, limit) in zip(
        names, (["peer", "payments", "20"], ["hog"], ["hog"]), (RESOURCES[qos], *2 * (RESOURCES[beside],)), strict=True
    ):
        labels = {"qioi.io/role": "peer"} if args[0] == "peer" else None
        daemon.run_pod(name, args, labels=labels, cpu=cpu, limit=limit)
    try:
        until(lambda: all(daemon.running(name) for name in names), "peer and hogs run")
        write_policy(daemon)
        pod, _ = daemon.groups(names[0])
        group = str(pod.relative_to(CPU))
        # Guaranteed pods stand beside the whole of the other classes, which part from one another above their pods.
        parts_at = group if qos in (beside, Qos.GUARANTEED) else group.rpartition("/")[0]

        def seen() -> Any:
            with suppress(RefusedError):  # the pod is not watched yet
                told = get_json(daemon.folder / "state/qioi.sock", "/explain", component=f"default/{names[0]}")
                met = [level["group"] for level in told["levels"] if (level["foreign"] or 0.0) > 0.1]
                return told if met[:1] == [parts_at] else None

        told = until(seen, f"the hogs are met beside {parts_at}, and nowhere further in")
        assert told["acted_at"] == [group]  # never the class's own
        assert told["actuator"].startswith(f"files; {qos} pod, moved at: pod")
        until(lambda: [bool(one.get("levelReason")) for one in status(daemon).get("components", ())] == [True],
              "the policy's status tells")  # fmt: skip
    finally:
        daemon.plane.kubectl("delete", "isolationpolicies", "-n", "default", "--all")
        for name in names:
            daemon.delete_pod(name)
        until(lambda: is_forgotten(names[0]), "it is forgotten")


def test_no_commit_is_lost_while_the_kubelet_rotates_the_log(daemon: Node) -> None:
    daemon.run_pod("chatty", ["peer", "payments", "4000"], labels={"qioi.io/role": "peer"}, cpu="500m")
    try:
        until(lambda: daemon.running("chatty"), "it runs")
        write_policy(daemon)

        def read() -> tuple[int, int] | None:
            """The highest block, and how many commit lines were read until it."""
            told = get_json(daemon.folder / "state/qioi.sock", "/status")
            heights = [one["height"] for one in told["channels"] if one["height"] is not None]
            return (heights[0], told["sources"][0]["commits"]) if heights else None

        first = until(read, "it is read")
        (logs,) = Path("/var/log/pods").glob("default_chatty_*/main")
        until(lambda: len(list(logs.glob("0.log.*"))) >= 2, "it was rotated twice", 240)
        rotated = read()
        last = until(lambda: (now := read()) and now > rotated and now, "it is read on")
        assert last[0] - first[0] == last[1] - first[1]
    finally:
        daemon.plane.kubectl("delete", "isolationpolicies", "-n", "default", "--all")
        daemon.delete_pod("chatty")


def test_the_server_is_away_and_the_node_goes_on(daemon: Node, peer: tuple[Path, Path]) -> None:
    pod, _ = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    until(lambda: status(daemon).get("components"), "the status tells")
    stop_server(daemon.plane)
    began = time.monotonic()
    try:
        until(lambda: "asked again until it answers" in log(daemon), "that it is away is said")
        (pod / "cpu.shares").write_text("5000")  # somebody else: what the daemon does about it shows that it lives
        until(lambda: "somebody else has changed" in log(daemon), "the daemon goes on looking")
        until(lambda: "default/peer0" in str(left_alone()), "the metrics tell of it")
        while time.monotonic() - began < 60:
            assert shares(pod) == 5000
            time.sleep(1)
    finally:
        daemon.plane.start_server()
    daemon.run_pod("late", ["peer", "payments", "5"], labels={"qioi.io/role": "peer"})
    until(lambda: daemon.running("late"), "a pod that came since runs", 300)  # the kubelet waits longer than we do
    late, _ = daemon.groups("late")
    until(lambda: shares(late) > 300, "it is seen and raised")
    daemon.delete_pod("late")


def test_a_kubelet_that_restarts_changes_nothing(daemon: Node, peer: tuple[Path, Path]) -> None:
    pod, container = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    before = json.loads(json.dumps([shares(pod), shares(container)]))
    daemon.stop_kubelet()
    daemon.start_kubelet()
    until(lambda: daemon.is_ready(), "the kubelet is back")
    daemon.run_pod("after", ["pause"])
    until(lambda: daemon.running("after"), "it does its work")
    daemon.delete_pod("after")
    assert shares(pod) > 300
    assert shares(container) == before[1]
    assert left_alone() == []


def test_a_containerd_that_restarts_changes_nothing(daemon: Node, peer: tuple[Path, Path]) -> None:
    pod, container = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    inside = (container / "cgroup.procs").read_text()
    daemon.stop_containerd()
    daemon.start_containerd()
    until(lambda: daemon.is_ready(), "the node is ready")
    daemon.run_pod("later", ["peer", "payments", "5"], labels={"qioi.io/role": "peer"})
    until(lambda: daemon.running("later"), "it does its work")
    later, _ = daemon.groups("later")
    until(lambda: shares(later) > 300, "a pod that came since is raised")
    daemon.delete_pod("later")
    assert (container / "cgroup.procs").read_text() == inside
    assert shares(pod) > 300
    assert left_alone() == []


def test_a_resize_by_somebody_else_is_where_we_go_on_from(daemon: Node, peer: tuple[Path, Path]) -> None:
    pod, container = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "200m"}}}]}}
    daemon.plane.call("PATCH", "/api/v1/namespaces/default/pods/peer0/resize", change,
                      kind="application/strategic-merge-patch+json")  # fmt: skip
    until(lambda: shares(container) >= 204, "the kubelet has resized the container")
    until(lambda: shares(pod) > 600, "the pod is raised from its new share")
    daemon.plane.call("DELETE", PAY)
    until(lambda: (shares(pod), shares(container)) == (204, 204), "what is put back is what was asked for last")


def test_a_killed_daemon_leaves_nothing_that_its_successor_does_not_know(daemon: Node, peer: tuple[Path, Path]) -> None:
    pod, _ = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    kill_daemon(daemon)
    until(lambda: "102, its original" in log(daemon), "it puts back what the dead one has left")
    until(lambda: shares(pod) > 300, "and goes on")


@pytest.mark.timeout(900)
def test_pods_come_and_go(daemon: Node) -> None:
    """By default 60 pods, 20 at a time; QIOI_K8S_PODS sets another number."""
    write_policy(daemon)
    total, wave = int(os.environ.get("QIOI_K8S_PODS", "60")), 20
    for start in range(0, total, wave):
        names = [f"peer-{number}" for number in range(start, min(total, start + wave))]
        for name in names:
            daemon.run_pod(name, ["peer", "payments", "1"], labels={"qioi.io/role": "peer"}, cpu="10m")
        until(lambda names=names: all(daemon.running(name) for name in names), "all run")  # type: ignore[misc]
        until(lambda names=names: all(any(f"/{name}\"" in line for line in daemon_view()) for name in names),
              "all are seen")  # type: ignore[misc]  # fmt: skip
        for name in names:
            daemon.delete_pod(name)
    until(lambda: not daemon_view(), "all are forgotten")
    restarts = daemon.pod(daemon_pod(daemon), "qioi")["status"]["containerStatuses"][0]["restartCount"]
    assert restarts <= 1  # the one of the test before
    daemon.plane.kubectl("delete", "isolationpolicies", "-n", "default", "--all")


def test_an_upgrade_puts_back_and_goes_on(daemon: Node, peer: tuple[Path, Path]) -> None:
    """A changed configuration is rolled out as a new image is; here one that only looks, and then the old one again."""
    pod, container = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    before = daemon_pod(daemon)
    install(daemon, "overlays/dry-run")
    until(lambda: (shares(pod), shares(container)) == (102, 102), "the old daemon has put back, the new one only looks")
    until(lambda: daemon_pod(daemon) not in ("", before), "the pod is another one")
    install(daemon)
    until(lambda: shares(pod) > 300, "and at work again")


def test_an_evicted_daemon_leaves_nothing_to_its_successor(daemon: Node, peer: tuple[Path, Path]) -> None:
    pod, _ = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    before = daemon_pod(daemon)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": before, "namespace": "qioi"}}
    daemon.plane.call("POST", f"/api/v1/namespaces/qioi/pods/{before}/eviction", eviction)
    until(lambda: daemon_pod(daemon) not in ("", before), "the DaemonSet has made another one")
    until(lambda: daemon_runs(daemon) and "watching" in log(daemon), "it has begun")
    assert "its original" not in log(daemon)  # as after a kill
    until(lambda: shares(pod) > 300, "it goes on")


def test_a_drained_node_has_nothing_left_of_its_pods(daemon: Node, peer: tuple[Path, Path]) -> None:
    pod, _ = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    try:
        daemon.plane.kubectl("drain", NODE, "--ignore-daemonsets", "--force", "--grace-period=1", "--timeout=60s")
        until(lambda: not pod.exists() and is_forgotten("peer0"), "the pods are gone, and forgotten")
        assert daemon_pod(daemon)  # a drain leaves DaemonSets where they are
    finally:
        daemon.plane.kubectl("uncordon", NODE)


def test_a_daemon_that_ends_restores_everything(daemon: Node, peer: tuple[Path, Path]) -> None:
    """As in an eviction or an upgrade: its rights and the policies stay."""
    pod, container = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    until(lambda: status(daemon).get("components"), "the status tells")
    daemon.plane.kubectl("delete", "daemonset", "qioi", "-n", "qioi")
    until(lambda: (shares(pod), shares(container)) == (102, 102), "every share is as it was found")
    until(lambda: not status(daemon), "the daemon's words are taken back")
    install(daemon)
    until(lambda: shares(pod) > 300, "and at work again")


def test_it_starts_beside_a_crowd_and_tells_whether_it_is_at_work(daemon: Node) -> None:
    """By the commands that docs/kubernetes.md names. Until it runs, its own pod has no more than it asks for."""
    names = [f"crowd{number}" for number in range(8)]
    uninstall(daemon)
    try:
        for name in names:
            daemon.run_pod(name, ["hog"])
        until(lambda: all(daemon.running(name) for name in names), "the crowd is there")
        daemon.plane.kubectl("apply", "-f", "-", text=installation(daemon))
        daemon.plane.kubectl("rollout", "status", "-n", "qioi", "daemonset/qioi", "--timeout=110s")
        own, _ = daemon.groups(daemon_pod(daemon), "qioi")
        assert shares(own) == OWN_SHARES
        said = daemon.plane.kubectl("exec", "-n", "qioi", "ds/qioi", "--", sys.executable, "-m", "qioi.cli", "check",
                                    "-c", "/etc/qioi/qioi.yaml")  # fmt: skip
        assert "actuator: files\n" in said
        assert "problems: none" in said
    finally:
        for name in names:
            daemon.delete_pod(name)


def test_uninstalling_restores_everything(daemon: Node, peer: tuple[Path, Path]) -> None:
    """All at once: the daemon learns that it is to end when it has no rights and no policies any more."""
    pod, container = peer
    until(lambda: shares(pod) > 300, "the pod is raised")
    uninstall(daemon)
    until(lambda: (shares(pod), shares(container)) == (102, 102), "every share is as it was found")
    assert not (daemon.folder / "state/journal").exists()
    assert daemon.plane.kubectl("get", "clusterroles,clusterrolebindings,crd,ns", "-o", "name").count("qioi") == 0
    install(daemon)
    write_policy(daemon)
    until(lambda: shares(pod) > 300, "installed again it is at work again")
