"""Give the paths of a pod's control groups, from what the API says of the pod.

All pods are below `kubepods`, Burstable and BestEffort pods in a group of their class, Guaranteed pods directly. With
the systemd driver each level is a slice whose name repeats its parents', and dashes in the uid, and in the kubelet's
cgroup root, become underscores.
Sources: Kubernetes pkg/kubelet/cm (cgroup_manager_linux.go, pod_container_manager_linux.go, node_container_manager).

A weight counts among siblings only. So the pod's group competes with the pods of its class; a container's group
competes only with the others in its pod. The groups of the classes are never written, because the kubelet sets them
every minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Driver(StrEnum):
    """The kubelet's cgroup driver: the kubelet makes the groups itself, or systemd does."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class Qos(StrEnum):
    """A pod's QoS class, as its status gives it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


#: The prefix of a container's systemd scope, by the scheme of its containerID.
_SCOPES = {"containerd": "cri-containerd", "cri-o": "crio", "docker": "docker"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of this node's groups. ``root`` is the kubelet's --cgroup-root."""

    driver: Driver
    root: str = ""

    def pods(self) -> str:
        """Give the group that holds all pods."""
        return self._join([*self._roots(), "kubepods"])

    def pod(self, uid: str, qos: Qos) -> str:
        """Give a pod's group, which has the same name in both cgroup versions."""
        tier = [] if qos is Qos.GUARANTEED else [qos.value.lower()]
        return self._join([*self._roots(), "kubepods", *tier, f"pod{uid}"])

    def container(self, uid: str, qos: Qos, container_id: str) -> str:
        """Give a container's group; ``container_id`` begins with its runtime's scheme, like in the pod's status."""
        scheme, _, number = container_id.partition("://")
        if self.driver is Driver.SYSTEMD:
            return f"{self.pod(uid, qos)}/{_SCOPES.get(scheme, scheme)}-{number}.scope"
        return f"{self.pod(uid, qos)}/{'crio-' if scheme == 'cri-o' else ''}{number}"

    def _roots(self) -> list[str]:
        return [part for part in self.root.strip("/").split("/") if part]

    def _join(self, parts: list[str]) -> str:
        if self.driver is Driver.CGROUPFS:
            return "/".join(parts)
        parts = [part.removesuffix(".slice").replace("-", "_") for part in parts]
        return "/".join("-".join(parts[: depth + 1]) + ".slice" for depth in range(len(parts)))


def find_layout(mount: Path, root: str = "", containers: Iterable[tuple[str, Qos, str]] = ()) -> Layout | None:
    """Find the layout by the group of all pods; ``None`` before the kubelet has made that group.

    A driver that the kubelet had before, since the last boot, has left its group. Where both are there, the one counts
    that has the group of one of ``containers``: the pod's uid, its class, and the container's id, of those that run.
    """
    made = [layout for driver in Driver if (mount / (layout := Layout(driver, root)).pods()).is_dir()]
    if len(made) == 1:
        return made[0]
    running = [*containers]
    return next((one for one in made if any((mount / one.container(*it)).is_dir() for it in running)), None)
