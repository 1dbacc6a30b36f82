"""A whole node with cgroup v2 and the systemd driver: QiOi as it is installed, on a kubelet in an emulated machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from k8s_cluster import ControlPlane, lacking, until
from k8s_guest import GUEST, GUESTS_HOST, PATIENCE, Guest, Pods, UnavailableError, node_of_v2, weights
from k8s_install import rendered
from k8s_tools import NRI_TOOLS, TOOLS
from ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(1200)]
POLICIES = "/apis/qioi.io/v1alpha1/namespaces/default/isolationpolicies"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[Pods, Guest]]:
    why = lacking([*(name for name in TOOLS if name != "helm"), *NRI_TOOLS], ["etcd", "openssl", "go", "runc"])
    if why:
        pytest.skip(why)
    plane = ControlPlane(Path(tempfile.mkdtemp(prefix="qioi-k8s-")), free_ports())
    plane.tokens[f"{GUEST}-token"] = (f"system:node:{GUEST}", "system:nodes")
    try:
        plane.start()
        plane.start_controllers()
        with node_of_v2(plane, tmp_path) as (pods, guest):
            try:
                until(pods.is_ready, "the node is ready", PATIENCE)
            except AssertionError as error:
                raise AssertionError(guest.text()[-3000:]) from error
            yield pods, guest
    except UnavailableError as error:
        pytest.skip(f"no guest here: {error}")
    finally:
        plane.close()


def test_a_pod_is_raised_and_put_back(node: tuple[Pods, Guest]) -> None:
    pods, guest = node
    plane = pods.plane

    def wait(happened: Any, what: str) -> Any:
        try:
            return until(happened, what, PATIENCE)
        except AssertionError as error:
            told = plane.kubectl("describe", "pods", "-A")[-3000:]
            raise AssertionError(f"{told}\n{guest.text()[-2000:]}") from error

    def status() -> dict[str, Any]:
        return dict(plane.call("GET", f"{POLICIES}/pay").get("status", {}))

    places = ("/usr", "/lib", "/lib64", "/bin", "/opt")
    documents = rendered(plane, "base", places, "/usr/bin/python3", GUESTS_HOST, "/opt/source:/opt/site")
    plane.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))
    wait(lambda: "INFO watching" in guest.text(), "the daemon has begun")  # slowly, beside hogs
    pods.run_pod("peer0", ["peer", "payments", "10"], labels={"qioi.io/role": "peer"})
    for name in ("hog0", "hog1"):  # one for each processor
        pods.run_pod(name, ["hog"], cpu="50m")
    wait(lambda: all(map(pods.running, ("peer0", "hog0", "hog1"))), "peer and hogs run")
    uid = pods.pod("peer0")["metadata"]["uid"].replace("-", "_")
    tier = "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice"
    pod = f"{tier}/kubepods-burstable-pod{uid}.slice"
    number = pods.pod("peer0")["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    groups = (tier, pod, f"{pod}/cri-containerd-{number}.scope")

    def seen() -> tuple[int | None, ...]:
        """The weights of the class, the pod and the container."""
        now = weights(guest)
        return tuple(now.get(one) for one in groups)

    found = wait(lambda: seen() if all(seen()) else None, "systemd has made the groups")
    plane.call("POST", POLICIES, {
        "apiVersion": "qioi.io/v1alpha1", "kind": "IsolationPolicy", "metadata": {"name": "pay"},
        "spec": {"channel": "payments", "law": "proportional", "threshold": 10000},
    })  # fmt: skip
    wait(lambda: (seen()[1] or 0) >= 2 * found[1], "the pod's weight is raised")
    assert (seen()[0], seen()[2]) == (found[0], found[2])
    entry = wait(lambda: (status().get("components") or [{}])[0], "the status tells")
    assert (entry["level"], entry["actuator"], entry["qosClass"]) == ("pod", "files", "Burstable")
    assert "cpu.weight of containers and pods, cgroup v2" in status()["nodes"][0]["actuator"]
    plane.kubectl("delete", "daemonset", "qioi", "-n", "qioi")
    wait(lambda: seen() == found, "every weight is as it was found")
