"""A cluster of one node as the demo uses it: kubectl, pods and their control groups, containers' logs.

The demo runs on the node itself, as root: what it measures stands in this host's control groups and log files.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from demo_k8s.control_plane import run, until
from qioi.kubernetes.cgroups import Layout, Qos, find_layout
from qioi.lab.kubernetes_secrets import Document
from qioi.processes.cgroups import Group, Mounts, find_mounts
from qioi.processes.errors import LabError

LOGS = Path("/var/log/pods")
#: Seconds that one call of kubectl may take.
TIMEOUT = 120.0
#: A line of a container's log: `TIME STREAM F|P TEXT`.
_LINE = re.compile(r"^\S+ (stdout|stderr) ([FP]) ?(.*)$")


@dataclass(frozen=True, slots=True)
class Cluster:
    """How the cluster is reached: by kubectl, and from pods on the node's network by the API server's port."""

    kubectl: Path
    kubeconfig: Path
    api_port: int
    kubelet_root: Path

    def run(self, *arguments: str | Path, text: str | None = None) -> str:
        """Run kubectl; give what it printed."""
        return run([self.kubectl, "--kubeconfig", self.kubeconfig, *arguments], text=text, patience=TIMEOUT)

    def render(self, folder: Path) -> list[Document]:
        """Give a kustomization's objects."""
        return [one for one in yaml.safe_load_all(self.run("kustomize", folder)) if one]

    def apply(self, documents: Iterable[Document]) -> None:
        """Create or update the objects."""
        self.run("apply", "-f", "-", text=yaml.safe_dump_all(documents, sort_keys=False))

    def delete(self, documents: Iterable[Document]) -> None:
        """Remove the objects and wait until their pods are gone."""
        self.run("delete", "--ignore-not-found", "--wait=true", "-f", "-", text=yaml.safe_dump_all(documents))

    def pods(self, namespace: str, selector: str) -> list[Pod]:
        """List the pods with these labels, without those that are being deleted."""
        text = self.run("get", "pods", "-n", namespace, "-l", selector, "-o", "json")
        return [Pod(one) for one in json.loads(text)["items"] if "deletionTimestamp" not in one["metadata"]]

    def running(self, namespace: str, selector: str, count: int) -> list[Pod]:
        """Wait until so many pods run."""
        found: list[Pod] = []

        def enough() -> bool:
            found[:] = self.pods(namespace, selector)
            for pod in found:
                pod.complain()
            return len([pod for pod in found if pod.running]) == count

        until(enough, lambda: f"{count} pods {selector} in {namespace}: " + "; ".join(map(str, found)))
        return sorted(found, key=lambda pod: pod.name)

    def gone(self, namespace: str, selector: str) -> None:
        """Wait until every such pod is gone, those that are being deleted included."""
        until(
            lambda: not self.run("get", "pods", "-n", namespace, "-l", selector, "-o", "name").strip(),
            f"pods {selector} in {namespace} end",
        )


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of one container, as the API describes it."""

    document: Document

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.document["metadata"]["uid"])

    @property
    def _status(self) -> dict[str, Any]:
        statuses = self.document["status"].get("containerStatuses") or [{}]
        return dict(statuses[0])

    @property
    def running(self) -> bool:
        """Whether its container runs."""
        return "running" in self._status.get("state", {})

    def complain(self) -> None:
        """Raise if its container cannot run, or has ended."""
        state = self._status.get("state", {})
        why = state.get("waiting", state.get("terminated", {})).get("reason", "")
        if why not in ("", "ContainerCreating", "PodInitializing", "Completed"):
            message = state.get("waiting", state.get("terminated", {})).get("message", "")
            raise LabError(f"pod {self.name}: {why} {message}; its log ends: {self.log()[-500:]}")

    def __str__(self) -> str:
        conditions = self.document["status"].get("conditions") or [{}]
        said = next((one["message"] for one in conditions if "message" in one), "")
        return f"{self.name} {self.document['status'].get('phase')} {self._status.get('state', '')} {said}"

    def log(self, stream: str = "stderr") -> str:
        """Read what its container has written to a stream, as far as the kubelet keeps it."""
        namespace, container = self.document["metadata"]["namespace"], self.document["spec"]["containers"][0]["name"]
        folder = LOGS / f"{namespace}_{self.name}_{self.uid}" / container
        return "".join(unwrap(read_log(file), stream) for file in sorted(folder.glob("*.log*"), key=age))

    def group(self, mounts: Mounts, layout: Layout) -> PodGroup:
        """Give its control groups."""
        qos = Qos(self.document["status"]["qosClass"])
        return PodGroup(mounts, layout.container(self.uid, qos, str(self._status["containerID"])))


def age(log: Path) -> tuple[int, str]:
    """Order a container's logs: by its restarts, and what the kubelet has rotated by time before what is written to."""
    restart, _, rotated = log.name.partition(".log")
    return int(restart), rotated.removesuffix(".gz") or "~"


def read_log(log: Path) -> str:
    """Read a log, which the kubelet may have compressed."""
    open_text = gzip.open if log.suffix == ".gz" else open
    with open_text(log, "rt", encoding="utf-8", errors="replace") as file:
        return file.read()


def unwrap(text: str, stream: str) -> str:
    """Remove the prefix that the runtime writes before each line of a stream."""
    found = (_LINE.match(line) for line in text.splitlines())
    return "".join(one[3] + ("\n" if one[2] == "F" else "") for one in found if one and one[1] == stream)


class PodGroup(Group):
    """A pod's one container. Processes are the container's; shares, which compete, and CPU time the pod's.

    The pod's own group is there until the pod is deleted, its container's goes with its last process.
    """

    @property
    def pod(self) -> Group:
        """The pod's own group."""
        return Group(self.mounts, self.path.rpartition("/")[0])

    @property
    def exists(self) -> bool:
        """Whether the pod's group is there."""
        return self.pod.exists

    def cpu_seconds(self) -> float:
        """CPU time that the pod has had, in seconds."""
        return self.pod.cpu_seconds()

    def shares(self) -> int:
        """Read the pod's shares."""
        return self.pod.shares()

    def set_shares(self, shares: int) -> None:
        """Write the pod's shares; among its containers there is but one."""
        self.pod.set_shares(shares)


def groups_of(pods: Iterable[Pod]) -> dict[str, PodGroup]:
    """Give the pods' groups by their names."""
    mounts = find_mounts()
    layout = find_layout(mounts.hierarchy.mount)
    if layout is None:
        raise LabError(f"{mounts.hierarchy.mount} has no group kubepods: the demo measures on the node itself")
    return {pod.name: pod.group(mounts, layout) for pod in pods}


def on_the_nodes_network(documents: Iterable[Document], hosts: Iterable[str]) -> list[Document]:
    """Adapt manifests to a node that has neither a pod network nor an image registry: names become loopback's."""
    aliases = [{"ip": "127.0.0.1", "hostnames": sorted(hosts)}]
    adapted = []
    for one in documents:
        if one["kind"] == "Namespace":
            labels = one["metadata"].setdefault("labels", {})
            labels |= {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "warn")}
        spec = one.get("spec", {}).get("template", {}).get("spec")
        if spec is not None:
            spec["hostNetwork"] = True
            if aliases[0]["hostnames"]:
                spec["hostAliases"] = aliases
            for container in spec["containers"]:
                container["imagePullPolicy"] = "Never"
            for volume in spec.get("volumes", ()):
                if "emptyDir" in volume:
                    volume["emptyDir"] = {"medium": "Memory"}
        adapted.append(one)
    return adapted


def best_effort(documents: Iterable[Document]) -> list[Document]:
    """Take the requests away: such pods are BestEffort."""
    adapted = []
    for one in documents:
        for container in one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            container.pop("resources", None)
        adapted.append(one)
    return adapted
