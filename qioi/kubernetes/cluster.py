"""Follow what the API says of this node, as one view that is replaced only when its contents change."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from qioi.controller.policy import Policy
from qioi.kubernetes import policy_watch, reflector
from qioi.kubernetes.actuators import NriNames
from qioi.kubernetes.cgroups import Driver, Layout, find_layout
from qioi.kubernetes.client import Api, Object
from qioi.kubernetes.pods import Pod, component, read_pod, sidecars, slim
from qioi.kubernetes.policies import Judge, Judged
from qioi.kubernetes.policy_watch import Looks, PolicyWatch
from qioi.kubernetes.reflector import Reflector
from qioi.kubernetes.remote import Reports
from qioi.kubernetes.reports import KUBELET
from qioi.kubernetes.units import UnitNames
from qioi.model import Component, Owner

log = logging.getLogger("qioi")

PODS = "/api/v1/pods"
#: Seconds that the end may take: that of the pods, and that of the policies.
ENDING = reflector.ENDING + 2 * policy_watch.ENDING


@dataclass(frozen=True, slots=True)
class View:
    """Components and policies of this node. ``pods`` is by main component; ``judged`` are all policies there are.

    ``looks``: when these were looked at; ``None`` while the copy of them or of the pods may be outdated.
    ``complete``: the API server has listed both pods and policies once.
    """

    components: tuple[Component, ...] = ()
    policies: Mapping[str, Policy] = field(default_factory=dict)
    pods: Mapping[str, Pod] = field(default_factory=dict)
    judged: tuple[Judged, ...] = ()
    dry_run: frozenset[str] = frozenset()
    resized: frozenset[str] = frozenset()  # policies that want requests to be moved
    problems: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, Owner] = field(default_factory=dict)  # the owners of pods' groups, by group
    running: frozenset[str] = frozenset()  # uids of pods whose main container runs, covered by a policy or not
    looks: Looks | None = None
    complete: bool = False
    reset: bool = False  # whether systemd, which cannot be told of shares, resets groups to its records

    def moves(self, other: View) -> bool:
        """Whether the daemon must adopt other components or policies; most changes do not require it."""
        return (self.components, self.policies, self.dry_run, self.resized, self.owners, self.complete) != (
            other.components, other.policies, other.dry_run, other.resized, other.owners, other.complete,
        )  # fmt: skip

    def problem_of(self, judged: Judged) -> str | None:
        """Say what keeps pods in the namespace of a policy in force from being components: first what keeps all."""
        if not judged.accepted or judged.key not in self.policies:
            return None
        inside = [about for about in self.problems if about.startswith(f"pod {judged.namespace}/")]
        about = next((one for one in (KUBELET, *inside) if one in self.problems), None)
        return None if about is None else f"{about}: {self.problems[about]}"


class Cluster:
    """Follows this node's pods, and the policies. :meth:`view` never waits."""

    def __init__(
        self,
        api: Api,
        node: str,
        mount: Path,
        logs: str,
        cgroup_root: str = "",
        naming: NriNames | None = None,
        units: UnitNames | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = api
        self.node = node
        self.reports = Reports(node)
        self._mount = mount
        self._logs = logs
        self._root = cgroup_root
        self._naming = naming
        self._units = units
        self._clock = clock
        self._layout: Layout | None = None
        self._search = threading.Thread()  # for the layout; none yet
        self._lock = threading.Lock()
        self._objects: Mapping[str, Object] = {}
        self._unread: dict[str, str] = {}  # by uid: why a pod is left out
        self._pods: tuple[Pod, ...] = ()
        self._pods_listed = False
        self._judge = Judge()
        self._judged: tuple[Judged, ...] = ()
        self._looks = Looks()
        self._view = View()
        query = {"fieldSelector": f"spec.nodeName={node}"}
        self.pods = Reflector(api, PODS, query, self._take_pods, slim=slim)
        self.policies = PolicyWatch(api, self._take_policies)

    def start(self) -> None:
        """Begin to follow."""
        self.policies.start()
        self.pods.start()

    def view(self) -> View:
        """Give the current view: the same object while nothing changes."""
        if self._layout is None and self._pods and not self._search.is_alive():
            self._search = threading.Thread(target=self._look_again, name="qioi-kubepods", daemon=True)
            self._search.start()
        return self._view

    def _look_again(self) -> None:
        """Look whether the kubelet has made its groups since; what names their units over D-Bus may take its time."""
        with self._lock:
            self._refresh()

    def objects_by_uid(self) -> Mapping[str, Object]:
        """Give all of this node's pods as the API shows them, also those that are no part of a ledger."""
        return self._objects

    def followed(self) -> bool:
        """Whether the copy of the pods is up to date with the API server; there is none before the first list."""
        return self._pods_listed and self.pods.problem is None

    def is_covered(self, uid: str) -> bool:
        """Whether a policy in force covers one of this node's pods, while that runs."""
        pod, judged = next((one for one in self._pods if one.uid == uid), None), self._judged
        return pod is not None and any(one.accepted and one.serves(pod) for one in judged)

    def close(self) -> None:
        """Stop following."""
        self.pods.close()
        self.policies.close()
        if self._units is not None:
            self._units.close()

    # ---- in the reflectors' threads

    def _take_pods(self, objects: Mapping[str, Object]) -> None:
        self._objects = {str(one["metadata"]["uid"]): one for one in objects.values()}
        pods = self._read(self._objects)
        with self._lock:
            self._pods = tuple(sorted(pods, key=lambda pod: (pod.path, pod.uid)))
            self._pods_listed = self.pods.is_listed
            if self._naming is not None:
                self._naming.keep_only({one.identity for pod in pods for one in pod.containers})
            self._refresh()
        self.policies.follow({pod.namespace for pod in pods})

    def _read(self, objects: Mapping[str, Object]) -> list[Pod]:
        """Read the pods, which are given by uid; of each that cannot be read its problem is said once."""
        pods: list[Pod] = []
        unread: dict[str, str] = {}
        for uid, one in objects.items():
            try:
                if (why := one.get("tooLarge")) is None and (pod := read_pod(one)) is not None:
                    pods.append(pod)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                why = f"cannot be read: {type(error).__name__}: {error}"
            if why is not None:
                unread[uid] = why
                if self._unread.get(uid) != why:
                    where = one["metadata"]
                    log.warning("kubernetes: pod %s/%s: %s", where.get("namespace"), where.get("name"), why)
        self._unread = unread
        return pods

    def _take_policies(self, objects: Mapping[str, Object], looks: Looks) -> None:
        judged = self._judge.judge(objects.values())
        with self._lock:
            self.reports.take(judged, self._clock(), looks)
            self._judged, self._looks = judged, looks
            self._refresh()

    def _refresh(self) -> None:
        """Make a new view, and keep the old one if they are equal."""
        if self._layout is None:
            running = ((pod.group_uid, pod.qos, one.identity) for pod in self._pods for one in pod.containers)
            self._layout = find_layout(self._mount, self._root, running)
        view = look(self._pods, self._judged, self._layout, self._logs, self._naming)
        followed = {"kubernetes pods": self.pods.problem, "kubernetes policies": self.policies.problem}
        looks = None if any(followed.values()) else self._looks
        if self._units is not None and self._layout is not None and self._layout.driver is Driver.SYSTEMD:
            view = named(view, self._units)
            followed["reloads"] = self._units.problem
        problems = {**view.problems, **{about: why for about, why in followed.items() if why}}
        if self._layout is None and self._pods:
            problems[KUBELET] = f"no group `kubepods` below {self._mount}: is cgroup_root right?"
        complete = self._pods_listed and self._looks.is_listed
        view = replace(view, problems=problems, looks=looks, complete=complete)
        if view != self._view:
            self._view = view


def look(
    pods: tuple[Pod, ...], judged: tuple[Judged, ...], layout: Layout | None, logs: str, naming: NriNames | None = None
) -> View:
    """Match pods with policies. A pod that no policy covers is left alone."""
    accepted = [one for one in judged if one.policy is not None]
    found: list[Component] = []
    by_component: dict[str, Pod] = {}
    problems: dict[str, str] = {}
    names: set[str] = set()
    for pod in pods:
        if pod.problem:
            problems[f"pod {pod.path}"] = pod.problem
        serves = tuple(one.key for one in accepted if one.serves(pod))
        if not serves or layout is None or pod.path in names:
            continue  # with the same name twice, the predecessor is still ending
        made = component(pod, serves, layout, logs, naming)
        if made is not None:
            names.add(pod.path)
            found += (made, *sidecars(pod, serves, layout, naming))
            by_component[made.name] = pod
    here = {pod.namespace for pod in pods}  # a daemon does not control channels whose pods are all on other nodes
    policies = {one.key: one.policy for one in accepted if one.policy is not None and one.namespace in here}
    dry_run = frozenset(one.key for one in accepted if one.dry_run)
    resized = frozenset(one.key for one in accepted if one.resize and not one.dry_run)
    running = frozenset(pod.uid for pod in pods for one in pod.containers if one.name == pod.main)
    return View(tuple(found), policies, by_component, judged, dry_run, resized, problems, running=running)


def named(view: View, units: UnitNames) -> View:
    """Add units as owners of components and of the pods above them; a runtime's own record takes precedence."""
    pods = {one.cgroup: one.cgroup.rpartition("/")[0] for one in view.components}
    names = units.look((*pods, *dict.fromkeys(pods.values())))
    components = tuple(replace(one, owner=one.owner or names.get(one.cgroup)) for one in view.components)
    owners = {pod: names[pod] for pod in pods.values() if pod in names}
    return replace(view, components=components, owners=owners, reset=not units.is_told)
