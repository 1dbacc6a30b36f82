"""Shares that are moved by pods' CPU requests: the lever beside groups' files, for policies that want it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from qioi.controller.acting import Taken
from qioi.controller.levels.wants import InForce
from qioi.kubernetes.cluster import View
from qioi.kubernetes.requests import shares_of
from qioi.kubernetes.resizer import Resizer
from qioi.kubernetes.resizes import begin, in_force
from qioi.model import Component, Decision


class PodRequests:
    """Has the resizer do what was decided about pods that it takes."""

    def __init__(self, resizer: Resizer) -> None:
        self._resizer = resizer
        self._by_request: set[str] = set()  # whose shares were read, and so decided, as what a request makes
        self._asked: dict[str, int] = {}
        #: The cluster as it was when the period began.
        self.view = View()
        #: Why a pod whose policy wants resizes is acted on by its files, by component.
        self.why_files: dict[str, str] = {}

    def in_force(self, component: Component, force: InForce) -> InForce:
        """Of a pod whose request is moved, or would be, what is in force is what the kubelet has made of the request.

        That holds from before the first change on: on cgroup v2 shares of groups are relative to 1024, those of
        requests are absolute.
        """
        self._by_request.discard(component.name)
        pod = self.view.pods.get(component.name)
        if pod is None:
            return force
        record = self._resizer.record(pod.uid)
        if record is None and self._wants_resize(component) and self._resizer.takes(pod) is None:
            record = begin(pod)
        if record is None:
            return force
        self._by_request.add(component.name)
        problem = self._resizer.problem(pod.uid)
        return replace(force, share=in_force(record, pod), original=shares_of(record.found), problem=problem)

    def take(self, decisions: Iterable[Decision]) -> Taken:
        """Have the requests moved that may be."""
        components = {one.name: one for one in self.view.components}
        taken: dict[str, str] = {}
        release = []
        asked: dict[str, int] = {}
        self.why_files = {}
        for one in decisions:
            name, pod = one.component, self.view.pods.get(one.component)
            if pod is None or not self._wants_resize(components[name]):
                continue
            why = self._resizer.takes(pod)
            if why is not None:
                self.why_files[name] = f"{why}: its files are written instead"
            elif name in self._by_request:
                taken[name] = pod.uid
                asked[name] = one.shares if one.changes else one.previous
                if self._resizer.record(pod.uid) is None:  # its files may have been written until now
                    release.append(components[name].cgroup)
                self._resizer.want(pod, one.shares)
        self._resizer.keep_only(set(taken.values()))
        made = frozenset(name for name, shares in asked.items() if self._asked.get(name, shares) != shares)
        self._asked = asked
        on_their_way = {name for name, pod in self.view.pods.items() if self._resizer.record(pod.uid) is not None}
        # Until a request is back, the kubelet may write at any time; and what was decided of requests is not for files.
        return Taken(frozenset(taken.keys() | on_their_way | self._by_request), made, tuple(release), self.why_files)

    def moves(self, uid: str) -> bool:
        """Whether a pod's request is ours, or on its way back."""
        return self._resizer.record(uid) is not None

    def _wants_resize(self, component: Component) -> bool:
        """Whether a policy of a component's wants its request to be moved."""
        return not self.view.resized.isdisjoint(component.channels)
