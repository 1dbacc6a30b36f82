"""The lever of pods' CPU requests, beside groups' files, for policies that opt in."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from qioi.controller.levels.wants import InForce
from qioi.controller.other_lever import NOTHING_TAKEN, Taken
from qioi.kubernetes.cluster import View
from qioi.kubernetes.requests import shares_of
from qioi.kubernetes.resizer import Resizer
from qioi.kubernetes.resizes import begin, in_force
from qioi.model import Component, Decision


class PodRequests:
    """Passes decisions to the resizer, for the pods whose request it may move."""

    def __init__(self, resizer: Resizer, *, chosen: bool = True) -> None:
        self._resizer = resizer
        #: Whether requests are the means of this node: until then nothing is passed on.
        self.chosen = chosen
        self._by_request: set[str] = set()  # components whose shares were read and decided as a request's
        self._asked: dict[str, int] = {}
        #: The cluster's view at the beginning of the period.
        self.view = View()
        #: Why files are written for a pod whose policy wants resizes, by component.
        self.why_files: dict[str, str] = {}

    def in_force(self, component: Component, force: InForce) -> InForce:
        """Replace the share in force by the one that the kubelet made of a pod's request, where the request is moved.

        This begins before the request's first change, because on cgroup v2 shares of groups are relative to 1024, and
        shares of requests are absolute.
        """
        self._by_request.discard(component.name)
        pod = self.view.pods.get(component.name)
        if pod is None or not self.chosen:
            return force
        record = self._resizer.record(pod.uid)
        if record is None and self._wants_resize(component) and self._resizer.takes(pod) is None:
            record = begin(pod)
        if record is None:
            return force
        self._by_request.add(component.name)
        problem = self._resizer.problem(pod.uid)
        share, original = in_force(record, pod.cpu), shares_of(record.found)
        return replace(force, share=share, original=original, problem=problem, by_request=True)

    def take(self, decisions: Iterable[Decision]) -> Taken:
        """Pass on the decisions that requests carry out; say which components they are."""
        if not self.chosen:
            return NOTHING_TAKEN
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
                once = "once its request is restored, " if self._resizer.record(pod.uid) is not None else ""
                self.why_files[name] = f"{why}: {once}its files are written instead"
            elif name in self._by_request:
                taken[name] = pod.uid
                asked[name] = one.shares if one.changes else one.previous
                if self._resizer.record(pod.uid) is None:  # until now its files may have been written
                    release.append(components[name].cgroup)
                self._resizer.want(pod, one.shares)
        self._resizer.keep_only(set(taken.values()))
        made = frozenset(name for name, shares in asked.items() if self._asked.get(name, shares) != shares)
        self._asked = asked
        on_their_way = {name for name, pod in self.view.pods.items() if self._resizer.record(pod.uid) is not None}
        # Until a request is restored, the kubelet may write the files at any time. Decisions for requests never do.
        return Taken(frozenset(taken.keys() | on_their_way | self._by_request), made, tuple(release), self.why_files)

    def moves(self, uid: str) -> bool:
        """Whether a pod's request is ours, or is being restored."""
        return self.chosen and self._resizer.record(uid) is not None

    def _wants_resize(self, component: Component) -> bool:
        """Whether one of a component's policies wants its request to be moved."""
        return not self.view.resized.isdisjoint(component.channels)
