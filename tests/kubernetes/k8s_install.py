"""QiOi on a node of the tests as deploy/k8s installs it, but for what such a node lacks: images, a pod network."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from demo_k8s.control_plane import ControlPlane, lacking, until
from demo_k8s.host import taken
from demo_k8s.images import write_image
from demo_k8s.node import WORK
from demo_k8s.tools import NRI_TOOLS, TOOLS, path
from k8s_node import Node
from k8s_nri import PLUGIN, build_plugin

from qioi.kernel.hierarchy import find_hierarchy
from qioi.processes.errors import LabError

ROOT = Path(__file__).parents[2]
#: Where the daemon's metrics are, since it has no network of its own.
METRICS = 18990
#: Folders of this machine that the daemon's container runs from, since no image can be pulled here.
HOST_FILES = ("/usr", "/lib", "/lib64", "/bin", str(ROOT), sys.prefix, sys.base_prefix)


def need_node(*, nri: bool = False) -> None:
    """Skip where no node can be had, with a containerd that has NRI if so wanted. Its tests read v1's files."""
    if find_hierarchy().version != 1:
        pytest.skip("the node's CPU controller is looked at as cgroup v1 has it, and this machine has v2")
    programs = ["etcd", "openssl", "containerd", "runc", "ctr", "go", "ip", "conntrack", "socat"]
    tools = [*(name for name in TOOLS if name != "helm"), *(NRI_TOOLS if nri else ())]
    if why := lacking(tools, programs) or taken():
        pytest.skip(why)


@contextmanager
def whole_node(port: int, *, nri: bool = False) -> Iterator[Node]:
    """Bring a node up, with a containerd that has NRI if so wanted; skip where it can't be had."""
    need_node(nri=nri)
    folder = Path(tempfile.mkdtemp(prefix="qioi-node-"))
    node = Node(folder, port, path("containerd").parent) if nri else Node(folder, port)
    try:
        node.start()
        if nri:
            files = {"/qioi-nri": build_plugin(folder)}
            node.import_image(write_image(folder / "plugin.tar", PLUGIN, files, ["/qioi-nri"]))
        until(lambda: node.plane.kubectl("get", "sa", "-n", "default", "-o", "name"), "accounts are made")
        yield node
    finally:
        node.close()


def installation(node: Node, folder: str = "base") -> str:
    """Render the manifests of a folder of deploy/k8s for a node of this machine."""
    documents = rendered(node.plane, folder, HOST_FILES, sys.executable, "127.0.0.1", str(ROOT))
    (pod,) = (one["spec"]["template"]["spec"] for one in documents if one["kind"] == "DaemonSet")
    for volume in pod["volumes"]:
        if volume["name"] == "state":
            volume["hostPath"]["path"] = str(node.folder / "state")
        if volume["name"] == "runtime":
            volume["hostPath"]["path"] = str(node.nri)
    return yaml.safe_dump_all(documents)


def rendered(
    plane: ControlPlane, folder: str, files: Iterable[str], python: str, server: str, packages: str
) -> list[dict[str, Any]]:
    """Render the manifests of a folder of deploy/k8s, with a daemon that runs from its node's files, on its network.

    ``python`` runs it from ``packages``; ``server`` is the API server's address there; a plugin's image is there.
    """
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(plane.kubectl("kustomize", ROOT / "deploy/k8s" / folder)))
    for one in documents:
        if one["kind"] == "ConfigMap":
            settings = yaml.safe_load(one["data"]["qioi.yaml"])
            settings["metrics"] = {"listen": "127.0.0.1", "port": METRICS}
            one["data"]["qioi.yaml"] = yaml.safe_dump(settings)
    (pod,) = (one["spec"]["template"]["spec"] for one in documents if one["kind"] == "DaemonSet")
    (container,) = pod["containers"]
    pod["hostNetwork"] = True
    container["ports"][0] = {"name": "metrics", "containerPort": METRICS, "hostPort": METRICS}
    for probe in ("startupProbe", "livenessProbe"):
        container[probe]["httpGet"]["host"] = "127.0.0.1"
    container |= {"image": WORK, "imagePullPolicy": "Never", "command": [python, "-m", "qioi.cli"]}
    container["env"] += [
        {"name": "KUBERNETES_SERVICE_HOST", "value": server},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(plane.port)},
        {"name": "PYTHONPATH", "value": packages},
        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
    ]
    for number, place in enumerate(dict.fromkeys(files)):
        pod["volumes"].append({"name": f"host{number}", "hostPath": {"path": os.path.realpath(place)}})
        container["volumeMounts"].append({"name": f"host{number}", "mountPath": place, "readOnly": True})
    return documents


def install(node: Node, folder: str = "base") -> None:
    """Install, and wait until the daemon has begun."""
    node.plane.kubectl("apply", "-f", "-", text=installation(node, folder))
    until(lambda: daemon_pod(node), "the daemon's pod is there")
    try:
        until(lambda: daemon_runs(node) and "watching" in log(node), "the daemon has begun")
    except LabError as error:
        raise AssertionError(node.plane.kubectl("describe", "pod", "-n", "qioi")[-3000:] + log(node)) from error


def uninstall(node: Node, folder: str = "base") -> None:
    """Do what `kubectl delete -k` does: all objects at once, the daemon's rights and the policies' kind among them."""
    node.plane.kubectl("delete", "--ignore-not-found", "-f", "-", text=installation(node, folder))


def kill_daemon(node: Node) -> None:
    """Kill it, and wait until the kubelet has started its successor."""
    name = daemon_pod(node)

    def starts() -> int:
        return int(node.pod(name, "qioi")["status"]["containerStatuses"][0]["restartCount"])

    before = starts()
    for one in daemon_processes(node):
        os.kill(one, signal.SIGKILL)
    until(lambda: starts() > before, "the daemon is started again")


def daemon_processes(node: Node) -> list[int]:
    """Name the processes of the daemon's container."""
    _, group = node.groups(daemon_pod(node), "qioi")
    return [int(line) for line in (group / "cgroup.procs").read_text().split()]


def daemon_pod(node: Node) -> str:
    """Name the daemon's pod; empty while there is none."""
    found = node.plane.call("GET", "/api/v1/namespaces/qioi/pods")["items"]
    alive = [one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]]
    return alive[0] if alive else ""


def daemon_runs(node: Node) -> bool:
    """Whether it does; while it is replaced there may be no pod of it."""
    name = daemon_pod(node)
    return bool(name) and node.running(name, "qioi")


def log(node: Node) -> str:
    """Read what the daemon that was started last has said."""
    files = sorted(Path("/var/log/pods").glob("qioi_*/qioi/*.log"), key=lambda one: one.stat().st_mtime)
    return files[-1].read_text() if files else ""
