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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qioi.discovery.base import Found
from qioi.discovery.cgroups import PROC, NoGroupError, container_group, sees_the_host, unseen
from qioi.discovery.recognise import (
    LOGGED,
    NOWHERE,
    Network,
    Recognised,
    Rule,
    may_support,
    organisation,
    recognise,
    state_database,
)
from qioi.discovery.seen_containers import SeenContainer, gather
from qioi.model import Component, Role

DEFAULT_STATE = "/run/containerd/io.containerd.runtime.v2.task"
DOCKERS_NAMESPACE = "moby"
#: Seconds between two looks.
EVERY = 0.5
#: Looks at a task whose process is not there, or whose configuration cannot be read, after which that is said: one that
#: has ended is taken away by then, and one that is being made is complete.
ENDING = 4
#: Bytes of a task's configuration: ordinary ones have 10 to 20 KB.
MAX_CONFIG = 4 * 1024 * 1024

_CRI = "io.kubernetes.cri."


class NotYetError(Exception):
    """The task is being made, or taken away, or cannot be told; the message, unless empty, says why."""


@dataclass(slots=True)
class Told:
    """What a task's configuration says of it.

    A ``possible`` component is one only where a peer names it. ``missed``: looks in a row in which its process was not
    there.
    """

    name: str
    what: Recognised
    annotations: Mapping[str, str]
    environment: Mapping[str, str]
    possible: bool = False
    missed: int = 0


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
        self._told: dict[Path, Told] = {}  # of tasks that are to be looked at again
        self._untold: dict[Path, int] = {}  # looks in a row at tasks whose configuration could not be read
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
        known = [*self._sights, *self._told, *self._untold]  # what was found stays where it cannot be looked for
        tasks: list[Path] = []
        refused: list[str] = []
        try:
            namespaces = [one for one in self._state.iterdir() if one.name != DOCKERS_NAMESPACE and one.is_dir()]
        except OSError as error:
            namespaces, tasks = [], known
            refused.append(f"{self._state}: {error.strerror}")
        for namespace in namespaces:
            try:
                tasks += tasks_of(namespace)
            except OSError as error:
                tasks += [one for one in known if one.parent == namespace]
                refused.append(f"{namespace}: {error.strerror}")
        problem = f"{refused[0]}: looked at again; accepted is containerd's folder of tasks" if refused else None
        self._sights = {task: self._sights[task] for task in tasks if task in self._sights}
        self._told = {task: self._told[task] for task in tasks if task in self._told}
        self._untold = {task: self._untold[task] for task in tasks if task in self._untold}
        seen = []
        for task in tasks:
            sight = self._sights[task] if task in self._sights else self._look_at(task)
            if sight is not None:
                seen.append(sight)
        complete = problem is None or self._found.complete
        found = gather(seen, f"containerd {self._state}", problem, complete=complete)
        if found != self._found:
            self._found = found

    def _look_at(self, task: Path) -> SeenContainer | None:
        """Recognise one task. What is found out is kept, but for what may be otherwise at the next look."""
        told = self._told.pop(task, None)
        try:
            told = told or self._tell(task)
            sight = None if told is None else self._meet(task, told)
        except (NotYetError, OSError) as error:
            why = str(error) if isinstance(error, NotYetError) else f"it cannot be looked at: {error.strerror}"
            if told is None:
                return self._not_told(task, why)
            self._told[task] = told
            return SeenContainer(None, problems=(*told.what.problems, why), name=told.name) if why else None
        self._sights[task] = sight
        return sight

    def _not_told(self, task: Path, why: str) -> SeenContainer | None:
        """Say why a task's configuration cannot be read, unless it may be about to come, or to go."""
        looks = self._untold[task] = self._untold.get(task, 0) + 1
        return SeenContainer(None, problems=(why,), name=task.name) if why and looks >= ENDING else None

    def _tell(self, task: Path) -> Told | None:
        """Read what a task is; ``None`` for what is no container. NotYetError."""
        config = config_of(task)
        self._untold.pop(task, None)
        annotations = annotations_of(config)
        if annotations.get(f"{_CRI}container-type") == "sandbox":
            return None
        pod, container = annotations.get(f"{_CRI}sandbox-name"), annotations.get(f"{_CRI}container-name")
        name = f"{pod}/{container}" if pod and container else task.name
        image = annotations.get(f"{_CRI}image-name", "")
        what = recognise(name, image, annotations, self._rules, self._fabric)
        possible = self._fabric and may_support(what, image, annotations)
        if possible:
            what = Recognised(Role.SUPPORT)
        if namespace := of_pod(task, annotations, "sandbox-namespace"):  # pods of two namespaces may have one name
            name = f"{namespace}/{name}"
        return Told(name, what, annotations, environment_of(config), possible)

    def _meet(self, task: Path, told: Told) -> SeenContainer | None:
        """Give a task's component, or ``None`` if the task is no part of the ledger. NotYetError, OSError."""
        name, what = told.name, told.what
        if what.role is None and not what.best_effort:
            return SeenContainer(None, problems=what.problems, name=name) if what.problems else None
        group = self._group(task, told)
        if what.role is None:
            return SeenContainer(None, problems=what.problems, name=name, best_effort=group)
        problems, log = what.problems, None
        if what.role in LOGGED:
            log = log_of(task, told.annotations)
            if log is None:
                problems += ("its log is not known: accepted is a container of the CRI with the kubelet's log paths",)
        return SeenContainer(
            Component(
                name, what.role, group, what.channels, log, "cri" if log else "plain",
                organisation=organisation(name, told.annotations, told.environment),
            ),
            what.threshold, problems, name,
            database=state_database(told.environment) if what.role is Role.PEER else None,
            network=network_of(told.annotations), possible=told.possible,
        )  # fmt: skip

    def _group(self, task: Path, told: Told) -> str:
        """Find the group of a task's process. NotYetError, OSError."""
        try:
            pid = int((task / "init.pid").read_text(encoding="utf-8"))
            group = container_group(pid, task.name, self._version, self._proc, above=task.parent.name)
        except (FileNotFoundError, ValueError):
            raise NotYetError from None
        except NoGroupError as error:
            raise NotYetError(str(error)) from None
        if group is None:
            told.missed += 1
            hidden = told.missed >= ENDING and not sees_the_host(self._proc)
            raise NotYetError(unseen(pid) if hidden else "")
        return group


def tasks_of(namespace: Path) -> list[Path]:
    """List a namespace's tasks; none where it went meanwhile. OSError."""
    try:
        return list(namespace.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def config_of(task: Path) -> dict[str, Any]:
    """Read a task's OCI configuration. NotYetError: it is not there, not written completely, or cannot be read."""
    try:
        with (task / "config.json").open("rb") as file:
            document: Any = json.loads(file.read(MAX_CONFIG))
    except (FileNotFoundError, NotADirectoryError):
        raise NotYetError from None
    except OSError as error:
        raise NotYetError(f"its config.json cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise NotYetError(f"its config.json is no JSON document, or has more than {MAX_CONFIG >> 20} MiB") from None
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


def network_of(annotations: Mapping[str, str]) -> Network:
    """Read how a container is reached: by those of its pod, whose containers share a network namespace and a name.

    Names and addresses by which other pods reach it are the cluster's, and not told here.
    """
    sandbox = annotations.get(f"{_CRI}sandbox-id", "")
    if not sandbox:
        return NOWHERE
    return Network({sandbox: frozenset({annotations.get(f"{_CRI}sandbox-name", "")})}, space=sandbox)


def log_of(task: Path, annotations: Mapping[str, str]) -> str | None:
    """Find a container's log: ``POD'S FOLDER/CONTAINER/N.log``, N counting its starts."""
    container = annotations.get(f"{_CRI}container-name", "")
    folder = of_pod(task, annotations, "sandbox-log-directory")
    if not folder or not container or "/" in container:
        return None
    try:
        logs = [log for log in (Path(folder) / container).iterdir() if log.suffix == ".log" and log.stem.isdecimal()]
    except (OSError, ValueError):  # the folder goes, or is one that no path can name
        return None
    return str(max(logs, key=lambda log: int(log.stem))) if logs else None
