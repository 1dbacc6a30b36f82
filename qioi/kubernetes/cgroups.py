"""Where the kubelet puts a pod's control groups, as a function of what the API tells about the pod.

Sources: Kubernetes pkg/kubelet/cm (cgroup_manager_linux.go, pod_container_manager_linux.go, node_container_manager):
all pods are below `kubepods`, Burstable and BestEffort ones in a group of their class, Guaranteed ones directly. With
the systemd driver each level is a slice whose name repeats its parents', and dashes in the uid become underscores.

A weight counts among siblings only. So the group that competes is the pod's, among the pods of its class; a
container's counts only against the others in its pod. The classes' own groups are the kubelet's, which sets them again
every minute: they are never written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Driver(StrEnum):
    """Who makes the groups: the kubelet itself, or systemd for it."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class Qos(StrEnum):
    """A pod's class, as its status gives it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


#: How a runtime names the scope of a container, by the scheme of its containerID.
_SCOPES = {"containerd": "cri-containerd", "cri-o": "crio", "docker": "docker"}


@dataclass(frozen=True, slots=True)
class Layout:
    """How this node's groups are laid out. ``root`` is the kubelet's --cgroup-root, without slashes at its ends."""

    driver: Driver
    root: str = ""

    def pods(self) -> str:
        """Give the group that holds all pods."""
        return self._join([*self._roots(), "kubepods"])

    def pod(self, uid: str, qos: Qos) -> str:
        """Give a pod's group. Both cgroup versions name it alike."""
        tier = [] if qos is Qos.GUARANTEED else [qos.value.lower()]
        if self.driver is Driver.SYSTEMD:
            uid = uid.replace("-", "_")
        return self._join([*self._roots(), "kubepods", *tier, f"pod{uid}"])

    def container(self, uid: str, qos: Qos, container_id: str) -> str:
        """Give a container's group; ``container_id`` has its runtime's scheme before it, as in the pod's status."""
        scheme, _, number = container_id.partition("://")
        if self.driver is Driver.SYSTEMD:
            return f"{self.pod(uid, qos)}/{_SCOPES.get(scheme, scheme)}-{number}.scope"
        return f"{self.pod(uid, qos)}/{'crio-' if scheme == 'cri-o' else ''}{number}"

    def _roots(self) -> list[str]:
        return [part for part in self.root.strip("/").split("/") if part]

    def _join(self, parts: list[str]) -> str:
        if self.driver is Driver.CGROUPFS:
            return "/".join(parts)
        parts = [part.removesuffix(".slice") for part in parts]
        return "/".join("-".join(parts[: depth + 1]) + ".slice" for depth in range(len(parts)))


def find_layout(mount: Path, root: str = "") -> Layout | None:
    """Tell the driver by the group of all pods that is there; ``None`` before the kubelet has made it."""
    for driver in Driver:
        layout = Layout(driver, root)
        if (mount / layout.pods()).is_dir():
            return layout
    return None
