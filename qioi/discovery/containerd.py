"""The components among containerd's containers, where neither Docker nor Kubernetes' API tells of them.

containerd keeps a folder for each running task, with the OCI configuration that its runtime was given and the number of
its first process. To list these folders costs microseconds, so they are looked at from the loop, twice a second, and
no thread and no connection are needed. The CRI's annotations in the configuration name pod, container, and image; the
log is where the kubelet puts logs. Docker's own tasks, in the namespace `moby`, are left out: the section `docker` is
for them. No record of shares is kept: containerd writes them only when it makes a group.

Sources: containerd's runtime/v2 (bundle.go), pkg/cri/annotations, the kubelet's pkg/kubelet/kuberuntime (log paths).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from qioi.discovery.base import Found
from qioi.discovery.cgroups import PROC, NoGroupError, container_group
from qioi.discovery.recognise import LOGGED, Rule, organisation, recognise
from qioi.discovery.seen_containers import SeenContainer, gather
from qioi.model import Component

DEFAULT_STATE = "/run/containerd/io.containerd.runtime.v2.task"
DOCKERS_NAMESPACE = "moby"
#: Seconds between two looks.
EVERY = 0.5
#: Bytes of a task's configuration: ordinary ones have 10 to 20 KB.
MAX_CONFIG = 4 * 1024 * 1024

_CRI = "io.kubernetes.cri."


class NotYetError(Exception):
    """The task is being made, or taken away."""


class ContainerdDiscovery:
    """Looks at one containerd's folder of tasks."""

    def __init__(
        self,
        state: str,
        cgroup_version: int,
        rules: Sequence[Rule] = (),
        *,
        fabric: bool = True,
        proc: Path = PROC,
        every: float = EVERY,
    ) -> None:
        self._state = Path(state)
        self._version = cgroup_version
        self._rules = tuple(rules)
        self._fabric = fabric
        self._proc = proc
        self._every = every
        self._next = 0.0
        self._sights: dict[Path, SeenContainer | None] = {}
        self._found = Found(complete=False)

    def found(self) -> Found:
        """Look, if it is time to, and give what is there."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            self._look()
        return self._found

    def close(self) -> None:
        """Nothing is open."""

    def _look(self) -> None:
        problem = None
        try:
            namespaces = [one for one in self._state.iterdir() if one.name != DOCKERS_NAMESPACE and one.is_dir()]
            tasks = [task for namespace in namespaces for task in tasks_of(namespace)]
        except OSError as error:
            tasks = list(self._sights)  # what was found stays
            problem = f"{self._state}: {error.strerror}: looked at again; accepted is containerd's folder of tasks"
        self._sights = {task: self._sights[task] for task in tasks if task in self._sights}
        for task in tasks:
            if task not in self._sights:
                with suppress(NotYetError):
                    self._sights[task] = self._meet(task)
        complete = problem is None or self._found.complete
        seen = (one for one in self._sights.values() if one is not None)
        found = gather(seen, f"containerd {self._state}", problem, complete=complete)
        if found != self._found:
            self._found = found

    def _meet(self, task: Path) -> SeenContainer | None:
        """Recognise one task; ``None`` for one that is no part of the ledger."""
        config = config_of(task)
        annotations = annotations_of(config)
        if annotations.get(f"{_CRI}container-type") == "sandbox":
            return None
        pod, container = annotations.get(f"{_CRI}sandbox-name"), annotations.get(f"{_CRI}container-name")
        name = f"{pod}/{container}" if pod and container else task.name
        what = recognise(name, annotations.get(f"{_CRI}image-name", ""), annotations, self._rules, self._fabric)
        if namespace := of_pod(task, annotations, "sandbox-namespace"):  # pods of two namespaces may have one name
            name = f"{namespace}/{name}"
        if what.role is None and not what.best_effort:
            return SeenContainer(None, problems=what.problems, name=name) if what.problems else None
        try:
            pid = int((task / "init.pid").read_text())
            group = container_group(pid, task.name, self._version, self._proc)
        except (OSError, ValueError):
            raise NotYetError from None
        except NoGroupError as error:
            return SeenContainer(None, problems=(*what.problems, str(error)), name=name)
        if group is None:
            raise NotYetError
        if what.role is None:
            return SeenContainer(None, problems=what.problems, name=name, best_effort=group)
        problems, log = what.problems, None
        if what.role in LOGGED:
            log = log_of(task, annotations)
            if log is None:
                problems += ("its log is not known: accepted is a container of the CRI with the kubelet's log paths",)
        return SeenContainer(
            Component(
                name, what.role, group, what.channels, log, "cri" if log else "plain",
                organisation=organisation(name, annotations, environment_of(config)),
            ),
            what.threshold, problems, name,
        )  # fmt: skip


def tasks_of(namespace: Path) -> list[Path]:
    """List a namespace's tasks; none where it went meanwhile."""
    try:
        return list(namespace.iterdir())
    except OSError:
        return []


def config_of(task: Path) -> dict[str, Any]:
    """Read a task's OCI configuration. NotYetError: it is not written completely."""
    try:
        with (task / "config.json").open("rb") as file:
            document: Any = json.loads(file.read(MAX_CONFIG))
    except (OSError, ValueError, RecursionError):
        raise NotYetError from None
    return document if isinstance(document, dict) else {}


def annotations_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Give the annotations of an OCI configuration."""
    found = config.get("annotations")
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def environment_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Give the environment of a container's first process."""
    process = config.get("process")
    found = process.get("env") if isinstance(process, dict) else None
    return dict(str(one).split("=", 1) for one in found if "=" in str(one)) if isinstance(found, list) else {}


def of_pod(task: Path, annotations: Mapping[str, str], key: str) -> str:
    """Give an annotation of a container's pod; older versions of containerd have some at its sandbox alone."""
    sandbox = annotations.get(f"{_CRI}sandbox-id", "")
    if (told := annotations.get(f"{_CRI}{key}")) or not sandbox or "/" in sandbox:
        return told or ""
    try:
        return annotations_of(config_of(task.parent / sandbox)).get(f"{_CRI}{key}", "")
    except NotYetError:
        return ""


def log_of(task: Path, annotations: Mapping[str, str]) -> str | None:
    """Find a container's log: ``POD'S FOLDER/CONTAINER/N.log``, N counting its starts."""
    container = annotations.get(f"{_CRI}container-name", "")
    folder = of_pod(task, annotations, "sandbox-log-directory")
    if not folder or not container or "/" in container:
        return None
    logs = [log for log in (Path(folder) / container).glob("*.log") if log.stem.isdecimal()]
    return str(max(logs, key=lambda log: int(log.stem))) if logs else None
