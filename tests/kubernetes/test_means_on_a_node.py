"""The preferred actuators as deploy/k8s/overlays installs them: a containerd that has NRI, a kubelet that resizes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo_k8s.control_plane import until
from demo_k8s.host import CPU
from demo_k8s.objects import pods_path
from k8s_install import daemon_processes, install, log, uninstall, whole_node
from k8s_node import Node, stop_server
from k8s_policy import PAY, chosen, entry, shares, write_policy
from k8s_policy_objects import change_policy
from ports import free_ports

from qioi.kubernetes.requests import ORIGINAL_ANNOTATION
from qioi.processes.errors import LabError
from qioi.show.http import get_json

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(500)]
PODS = pods_path("default")
PEER, HOGS = "peer0", ("hog0", "hog1")
STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with whole_node(free_ports(), nri=True) as node:
        yield node


def request(node: Node) -> str:
    return str(node.pod(PEER)["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def original(node: Node) -> str | None:
    return (node.pod(PEER)["metadata"].get("annotations") or {}).get(ORIGINAL_ANNOTATION)


def resize(node: Node, **resources: dict[str, str]) -> None:
    """Somebody else's."""
    change = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    node.plane.call("PATCH", f"{PODS}/{PEER}/resize", change, kind=STRATEGIC)


def clear(node: Node) -> None:
    """Remove policies and pods."""
    if "isolationpolicies.qioi.io" in node.plane.kubectl("get", "crd", "-o", "name"):
        node.plane.kubectl("delete", "isolationpolicies", "-n", "default", "--all")
    for one in node.plane.call("GET", PODS)["items"]:
        node.delete_pod(one["metadata"]["name"])
    until(lambda: not node.plane.call("GET", PODS)["items"], "they are gone")


# ---- NRI


@pytest.fixture(scope="module")
def plugged(node: Node) -> Iterator[Node]:
    install(node, "overlays/nri")
    yield node
    uninstall(node, "overlays/nri")


@pytest.fixture
def crowded(plugged: Node) -> Iterator[Path]:
    """A peer with a hog in its own pod: they compete as containers, and there the record counts. Give its group."""
    plugged.run_pod(PEER, ["peer", "payments", "20"], labels={"qioi.io/role": "peer"}, cpu="700m", limit="4",
                    beside=["hog"])  # fmt: skip
    until(lambda: plugged.running(PEER), "it runs")
    _, container = plugged.groups(PEER)
    assert both(plugged, container) == (716, 716)
    write_policy(plugged, bounds={"floor": 3000, "ceiling": 3000})
    yield container
    clear(plugged)


def both(node: Node, container: Path) -> tuple[int, int]:
    """Give the group's shares, and those on containerd's record."""
    return shares(container), node.record(container.name)


def become(node: Node, container: Path, wanted: int) -> None:
    """Wait until group and record are so."""
    try:
        until(lambda: both(node, container) == (wanted, wanted), f"both become {wanted}")
    except LabError as error:
        told = get_json(node.folder / "state/qioi.sock", "/explain", component=f"default/{PEER}")
        raise AssertionError(f"group and record are {both(node, container)}: {log(node)[-3000:]}, {told}") from error


def test_nri_is_chosen_and_keeps_group_and_record_alike(plugged: Node, crowded: Path) -> None:
    until(lambda: chosen(plugged).startswith("nri: containerd"), "what was chosen is said in the policy's status")
    assert "actuator nri: containerd" in log(plugged)
    become(plugged, crowded, 3000)
    until(lambda: entry(plugged).get("actuator") == "nri", "that is said")
    assert (entry(plugged)["original"], entry(plugged)["shares"]) == (716, 3000)
    assert request(plugged) == "700m"
    plugged.stop_kubelet()
    plugged.start_kubelet()
    until(plugged.is_ready, "the kubelet is back")
    plugged.run_pod("after", ["pause"], cpu="10m")
    until(lambda: plugged.running("after"), "it does its work")
    assert both(plugged, crowded) == (3000, 3000)
    change_policy(plugged.plane, "default", "pay", dryRun=True)
    become(plugged, crowded, 716)


def test_a_resize_of_memory_is_where_we_go_on_from(plugged: Node, crowded: Path) -> None:
    """The kubelet has containerd set shares anew with it."""
    become(plugged, crowded, 3000)
    resize(plugged, requests={"memory": "96Mi"}, limits={"memory": "96Mi"})
    limit = Path("/sys/fs/cgroup/memory", crowded.relative_to(CPU), "memory.limit_in_bytes")
    until(lambda: int(limit.read_text()) == 96 << 20, "the kubelet has resized the container")
    until(lambda: "is taken as it is now" in log(plugged), "what it has set for that is nobody's else")
    until(lambda: "problem" not in entry(plugged), "the container is not given up")
    plugged.plane.call("DELETE", PAY)
    become(plugged, crowded, 716)


def test_nri_outlives_its_runtime(plugged: Node, crowded: Path) -> None:
    become(plugged, crowded, 3000)
    plugged.stop_containerd(signal.SIGKILL)
    change_policy(plugged.plane, "default", "pay", bounds={"floor": 4000, "ceiling": 4000})
    until(lambda: shares(crowded) == 4000, "the group itself needs nobody")
    plugged.start_containerd()
    become(plugged, crowded, 4000)
    change_policy(plugged.plane, "default", "pay", dryRun=True)
    become(plugged, crowded, 716)


def test_a_killed_daemons_records_are_put_back_by_its_successor(plugged: Node, crowded: Path) -> None:
    become(plugged, crowded, 3000)
    processes = daemon_processes(plugged)
    stop_server(plugged.plane)  # so that the successor knows of no policy for a while
    try:
        for one in processes:
            os.kill(one, signal.SIGKILL)
        become(plugged, crowded, 716)
    finally:
        plugged.plane.start_server()
    become(plugged, crowded, 3000)


def test_uninstalling_puts_records_back(plugged: Node, crowded: Path) -> None:
    become(plugged, crowded, 3000)
    uninstall(plugged, "overlays/nri")
    assert both(plugged, crowded) == (716, 716)


# ---- in-place resize


@pytest.fixture(scope="module")
def resizing(node: Node) -> Iterator[Node]:
    install(node, "overlays/resize")
    yield node
    uninstall(node, "overlays/resize")


@pytest.fixture
def peer(resizing: Node) -> Iterator[tuple[Path, Path]]:
    """A peer beside two hogs; give its pod's and its container's groups."""
    resizing.run_pod(PEER, ["peer", "payments", "20"], labels={"qioi.io/role": "peer"})
    for name in HOGS:
        resizing.run_pod(name, ["hog"], cpu="50m")
    until(lambda: all(resizing.running(name) for name in (PEER, *HOGS)), "peer and hogs run")
    yield resizing.groups(PEER)
    clear(resizing)


def is_as_found(node: Node, peer: tuple[Path, Path]) -> bool:
    return (*map(shares, peer), request(node), original(node)) == (102, 102, "100m", None)


def test_requests_are_moved_and_the_kubelet_writes_the_shares(resizing: Node, peer: tuple[Path, Path]) -> None:
    pod, container = peer
    write_policy(resizing, resize=True)
    until(lambda: chosen(resizing).startswith("resize: requests of pods"), "what was chosen is said")
    until(lambda: min(shares(pod), shares(container)) > 300, "the kubelet has raised pod and container")
    assert (request(resizing) != "100m", original(resizing)) == (True, "100m")
    until(lambda: entry(resizing).get("actuator") == "resize", "the status tells")
    assert (entry(resizing)["original"], entry(resizing)["level"]) == (102, "pod, container")
    resizing.stop_kubelet()
    resizing.start_kubelet()
    until(resizing.is_ready, "the kubelet is back")
    change_policy(resizing.plane, "default", "pay", bounds={"floor": 900})
    until(lambda: min(shares(pod), shares(container)) >= 900, "it goes on")
    assert resizing.pod(PEER)["status"]["containerStatuses"][0]["restartCount"] == 0
    resizing.plane.call("DELETE", PAY)
    until(lambda: is_as_found(resizing, peer), "all is as it was found")


def test_what_the_kubelet_refuses_is_done_by_files(resizing: Node, peer: tuple[Path, Path]) -> None:
    write_policy(resizing, resize=True, bounds={"floor": 262144, "ceiling": 262144})
    until(lambda: "Infeasible" in log(resizing), "the kubelet refuses 256 CPUs, and that is said")
    until(lambda: request(resizing) == "100m" and original(resizing) is None, "the request is as it was")
    until(lambda: shares(peer[0]) > 100_000, "its files are written")
    until(lambda: entry(resizing).get("actuator") == "files", "the status tells")
    until(lambda: "Infeasible" in entry(resizing)["reason"], "and why")
    resizing.plane.call("DELETE", PAY)
    until(lambda: is_as_found(resizing, peer), "all is as it was found")


def test_a_request_of_somebody_elses_stays(resizing: Node, peer: tuple[Path, Path]) -> None:
    pod, container = peer
    write_policy(resizing, resize=True)
    until(lambda: shares(container) > 300, "the kubelet has raised the container")
    resize(resizing, requests={"cpu": "150m"})
    until(lambda: original(resizing) is None, "it is given up")
    until(lambda: shares(pod) > 300 and entry(resizing).get("actuator") == "files", "files are written from there on")
    resizing.plane.call("DELETE", PAY)
    until(lambda: (shares(pod), shares(container)) == (153, 153), "what is put back is what was asked for last")
    assert request(resizing) == "150m"


def test_a_killed_daemons_requests_are_put_back_by_its_successor(resizing: Node, peer: tuple[Path, Path]) -> None:
    write_policy(resizing, resize=True)
    until(lambda: shares(peer[0]) > 300, "the kubelet has raised the pod")
    processes = daemon_processes(resizing)
    resizing.stop_kubelet()  # it would start the successor at once
    for one in processes:
        os.kill(one, signal.SIGKILL)
    resizing.plane.call("DELETE", PAY)
    assert (request(resizing) != "100m", original(resizing)) == (True, "100m")
    resizing.start_kubelet()
    until(lambda: is_as_found(resizing, peer), "all is as it was found")


def test_uninstalling_step_by_step_puts_requests_back(resizing: Node, peer: tuple[Path, Path]) -> None:
    write_policy(resizing, resize=True)
    until(lambda: shares(peer[0]) > 300, "the kubelet has raised the pod")
    resizing.plane.kubectl("delete", "daemonset", "qioi", "-n", "qioi", "--cascade=foreground")
    assert (request(resizing), original(resizing)) == ("100m", None)
    uninstall(resizing, "overlays/resize")
    until(lambda: is_as_found(resizing, peer), "all is as it was found")
