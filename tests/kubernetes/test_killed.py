"""A node's daemon is killed; by hand or by a later start all that it had written is put back, pods' requests too.

The API server is real. There is no kubelet: the groups that it would make are made here, and real work is in them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from commit_line import commit_line
from demo_k8s.control_plane import ControlPlane
from demo_k8s.objects import add_policy, admit_pods, container_id, start_pod
from running import BUSY, NAPPING, NIBBLING, Site, end, unrest
from test_kubectl import run
from test_resizer import access
from waiting import remove_group, until

from qioi.controller.levers.eevdf import Kernel, default_slice
from qioi.kubernetes.cgroups import Driver, Layout, Qos
from qioi.kubernetes.client import Access
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION

__all__ = ["access"]  # the fixture

pytestmark = [pytest.mark.slow, pytest.mark.host]

#: The shares of a group that a kubelet makes for a request of 100m.
SHARES = 102
#: Pods by name: the channel that each serves, and what it does. The first one's request may be moved.
PEERS = {"asked": ("red", NAPPING), "written": ("green", NIBBLING)}


class Node:
    """Two peers and a hog for each processor, and the daemon that watches them."""

    def __init__(self, site: Site, plane: ControlPlane, namespace: str, access: Access) -> None:
        self.site, self.plane, self.namespace = site, plane, namespace
        self.name = f"{namespace}-node"
        self.layout = Layout(Driver.CGROUPFS, site.parent)
        self.logs: dict[str, Path] = {}
        self.work: list[subprocess.Popen[str]] = []
        self.blocks = 0
        self.groups: list[str] = []
        admit_pods(plane, namespace)
        for name, (channel, code) in PEERS.items():
            self._pod(name, code, role="peer")
            add_policy(plane, namespace, channel, resize=name == "asked")
        hogs = [self._pod(f"hog{number}", BUSY) for number in range(3 * (os.cpu_count() or 1))]
        self.idle = site.hierarchy.folder(hogs[0]) / "cpu.idle"
        kernel = Kernel()
        self.kernel = kernel if default_slice(kernel) is not None else None
        cluster = {
            "server": access.server, "ca": str(access.ca), "token": str(access.token), "node": self.name,
            "logs": str(site.folder), "cgroup_root": site.parent, "resize": True,
        }  # fmt: skip
        site.changes = {
            "channels": {},
            "kubernetes": cluster,
            "slices": "required" if self.kernel else "off",
            "slices_before_6_15": True,
            "best_effort": [hogs[0]] if self.idle.exists() else [],
        }
        self.found = self.now()
        self.in_force = dict.fromkeys(self.found, 0)

    def _pod(self, name: str, code: str, role: str | None = None) -> str:
        """Make a pod as if a kubelet had started it; give its container's group."""
        labels = {"qioi.io/role": role} if role else {}
        made = start_pod(self.plane, self.namespace, name, self.name, labels=labels)
        uid, container = str(made["metadata"]["uid"]), container_id(name)
        log = self.site.folder / f"{self.namespace}_{name}_{uid}" / "main" / "0.log"
        log.parent.mkdir(parents=True)
        log.touch()
        self.logs[name] = log
        group = self.layout.container(uid, Qos.BURSTABLE, container)
        self.site.hierarchy.folder(group).mkdir(parents=True)
        for one in (self.layout.pod(uid, Qos.BURSTABLE), group):
            self._share(one).write_text(str(SHARES))
            self.groups.append(one)
        self.work.append(self.site.work(group.removeprefix(f"{self.site.parent}/"), code))
        return group

    def _share(self, group: str) -> Path:
        return self.site.hierarchy.folder(group) / self.site.hierarchy.file

    def commit(self, transactions: int) -> None:
        """Have both peers commit a block."""
        self.blocks += 1
        now = datetime.now(UTC)
        for name, (channel, _) in PEERS.items():
            line = commit_line(channel, self.blocks, transactions, now)
            with self.logs[name].open("a") as log:
                log.write(f"{now:%Y-%m-%dT%H:%M:%S.%fZ} stderr F {line}")

    def now(self) -> dict[str, object]:
        """What is in force, by lever."""
        asked: dict[str, Any] = self.plane.call("GET", f"/api/v1/namespaces/{self.namespace}/pods/asked")
        threads = [int(tid.name) for one in self.work for tid in Path(f"/proc/{one.pid}/task").iterdir()]
        return {
            "shares": [self._share(group).read_text() for group in self.groups],
            "cpu.idle": self.idle.read_text() if self.idle.exists() else None,
            "slices": [self.kernel.read(tid).slice for tid in threads] if self.kernel else None,
            "request": (
                asked["spec"]["containers"][0]["resources"]["requests"]["cpu"],
                (asked["metadata"].get("annotations") or {}).get(ORIGINAL_ANNOTATION),
            ),
        }

    def count(self) -> None:
        """Note which levers are in force now."""
        for lever, state in self.now().items():
            self.in_force[lever] += state != self.found[lever]

    def missing(self) -> list[str]:
        """Name the levers that were in force at no kill."""
        return [one for one, state in self.found.items() if state is not None and not self.in_force[one]]

    def is_as_found(self) -> bool:
        return self.now() == self.found

    def close(self) -> None:
        for one in self.work:
            one.kill()
            one.wait()
        root = self.site.hierarchy.folder(self.site.parent)
        for folder, _, _ in os.walk(root / "kubepods", topdown=False):
            remove_group(Path(folder))


@pytest.fixture
def node(site: Site, plane: ControlPlane, namespace: str, access: Access) -> Iterator[Node]:
    node = Node(site, plane, namespace, access)
    yield node
    node.close()


@pytest.mark.timeout(3600)
def test_a_node_killed_at_random_moments_nothing_of_ours_outlives_it(
    node: Node, site: Site, request: pytest.FixtureRequest
) -> None:
    """Under work that comes and goes; put back by hand, by the next start, or by the next start but one."""
    chance = random.Random(request.config.getoption("--kills-seed"))
    kills = request.config.getoption("--kills")
    for kill in range(3 * kills):
        if kill >= kills and not node.missing():
            break
        for one in node.work:
            one.send_signal(signal.SIGCONT)
        process = site.begin()
        # Where a busy host lets none of them act so soon, the moments come ever later.
        unrest(chance, 8.0 * 2 ** (kill // kills), node.work, node.commit)
        assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL
        node.count()
        for one in node.work:
            one.send_signal(signal.SIGSTOP)
        put_back = chance.choice(["restore", "start", "later"])
        if put_back == "restore":
            assert site.qioi("restore", "--state-dir", str(site.state)).returncode == 0
            assert run(node.plane, "restore", "-n", node.namespace, "--force").exit_code == 0
            assert node.now() == node.found
        elif put_back == "start":
            process = site.start()  # nothing works, so it raises nothing itself
            until(node.is_as_found)
            assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL
    process = site.start()
    until(node.is_as_found)
    assert end(process)[0] == 0
    assert node.now() == node.found
    names = ("journal", "idle", "slices", "requests")
    assert [name for name in names if (site.state / name).exists()] == []
    assert node.missing() == [], f"in force at a kill: {node.in_force}"
