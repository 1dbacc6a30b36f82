"""The daemon whose components and policies are a cluster's: pods of this node, and IsolationPolicy objects."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from qioi.controller.guard.guard import Guard
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce, Want
from qioi.daemon.daemon import Daemon
from qioi.daemon.instruments import Instruments
from qioi.discovery.nri_records import KIND as NRI
from qioi.discovery.owners import EngineOwners
from qioi.kernel.errors import CgroupError
from qioi.kubernetes.actuators import Means, Offer, choose
from qioi.kubernetes.cluster import Cluster, View
from qioi.kubernetes.events import Teller
from qioi.kubernetes.pods import Pod
from qioi.kubernetes.reloads import Reloads
from qioi.kubernetes.remote import ClusterChannels
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.reports import LastDecision, Row, Sight
from qioi.kubernetes.requests import shares_of
from qioi.kubernetes.resizer import Resizer
from qioi.kubernetes.resizes import begin, in_force
from qioi.model import Decision
from qioi.settings.config import Config
from qioi.show.cluster import KubernetesState, PodState
from qioi.show.snapshot import ComponentState, Snapshot

log = logging.getLogger("qioi")

#: Seconds within which the kubelet makes a resize true: it needs one, and its next look at all pods is 10 s away.
RESIZE = 30.0


class KubernetesDaemon(Daemon):
    """Looks at the cluster's view before each period, and offers what it did to the reporter after it."""

    def __init__(
        self,
        config: Config,
        guard: Guard,
        instruments: Instruments,
        cluster: Cluster,
        reporter: Reporter,
        offers: tuple[Offer, ...],
        resizer: Resizer | None = None,
        owners: EngineOwners | None = None,
    ) -> None:
        super().__init__(config, guard, instruments)
        self._listed = config
        self._cluster = cluster
        self._reporter = reporter
        self._offers = offers
        self._chosen = choose(offers)
        self._resizer = resizer
        self._records = owners
        self._by_request: set[str] = set()  # whose shares were read, and so decided, as what a request makes
        self._why_files: dict[str, str] = {}  # why a pod whose policy wants resizes is acted on by its files
        self._view = View()
        self._teller = Teller()
        self._last: dict[str, LastDecision] = {}
        self._resized: dict[str, float] = {}
        self._reloads = Reloads()

    def adopt(self, config: Config, before: Snapshot) -> Snapshot:
        """Go on with another configuration, and with what the cluster says now."""
        self._listed, self._view = config, self._cluster.view()
        view = self._view
        self._actor.owners = view.owners
        return super().adopt(replace(config, components=view.components, policies=view.policies), before)

    def period(self, now: float, before: Snapshot) -> Snapshot:
        """Take in what has come or gone, do one period's work, and say what came of it."""
        view = self._cluster.view()
        if view.moves(self._view):
            before = self.adopt(self._listed, before)
        self._note_resizes(view, now)
        self._view = view
        problems = dict(view.problems)
        if self._reporter.problem:
            problems["kubernetes status"] = self._reporter.problem
        if self._records is not None and (behind := self._records.problem()):
            problems["records"] = behind
        problems |= {f"resize of {name}": why for name, why in self._why_files.items()}
        for about in {**before.problems, **problems}:
            self._say(about, problems.get(about))
        after = super().period(now, replace(before, problems=problems))
        self._accept_resizes(now)
        self._reporter.tell(self._teller.step(after.components, view.pods, now, after.time))
        pods = self._pod_states(after)
        self._reporter.offer({one.judged.path: one for one in self._sights(after, pods)})
        return replace(after, kubernetes=self._state(pods))

    def _look_at(
        self, state: ComponentState, placement: Placement | None, above: dict[str, str | None]
    ) -> InForce | CgroupError:
        """Of a pod whose request is moved, or would be, what is in force is what the kubelet says it has made of it.

        From before the first change on: on cgroup v2 shares of groups stand to 1024, those of requests are absolute.
        """
        seen = super()._look_at(state, placement, above)
        self._by_request.discard(state.name)
        pod = self._view.pods.get(state.name)
        if self._resizer is None or pod is None or isinstance(seen, CgroupError):
            return seen
        record = self._resizer.record(pod.uid)
        if record is None and self._wants_resize(state.name) and self._resizer.takes(pod) is None:
            record = begin(pod)
        if record is None:
            return seen
        self._by_request.add(state.name)
        problem = self._resizer.problem(pod.uid)
        return replace(seen, share=in_force(record, pod), original=shares_of(record.found), problem=problem)

    def _wants_resize(self, name: str) -> bool:
        """Whether a policy of a component's wants its request to be moved."""
        channels = next((one.channels for one in self._view.components if one.name == name), ())
        return not self._config.dry_run and not self._view.resized.isdisjoint(channels)

    def _resize(self, decisions: list[Decision]) -> set[str]:
        """Have the requests moved that may be; give the components of which that is so."""
        if self._resizer is None or self._config.dry_run:
            return set()
        taken: dict[str, str] = {}
        self._why_files = {}
        groups = {one.name: one.cgroup for one in self._view.components}
        for one in decisions:
            pod = self._view.pods.get(one.component)
            if pod is None or not self._wants_resize(one.component):
                continue
            why = self._resizer.takes(pod)
            if why is not None:
                self._why_files[one.component] = f"{why}: its files are written instead"
            elif one.component in self._by_request:
                taken[one.component] = pod.uid
                if self._resizer.record(pod.uid) is None:  # its files may have been written until now
                    self._actor.release(groups[one.component])
                self._resizer.want(pod, one.shares)
        self._resizer.keep_only(set(taken.values()))
        on_their_way = {name for name, pod in self._view.pods.items() if self._resizer.record(pod.uid) is not None}
        # Until a request is back, the kubelet may write at any time; and what was decided of requests is not for files.
        return taken.keys() | on_their_way | self._by_request

    def _act(self, states: Mapping[str, ComponentState], wants: tuple[Want, ...]) -> dict[str, ComponentState]:
        """Leave out what policies only want to be shown; note what was changed."""
        wet = [want.decision for want in wants if want.decision.channel not in self._view.dry_run]
        resized = self._resize(wet)
        self._dry_out({want.decision.component for want in wants} - {one.component for one in wet}, states)
        written = {one.component for one in wet} - resized
        after = super()._act(states, tuple(want for want in wants if want.decision.component in written))
        for name, why in self._why_files.items():
            after[name] = replace(after[name], reason=f"{after[name].reason}; {why}")
        for one in wet:
            if one.component in resized and one.changes and one.shares != states[one.component].wanted:
                self._note(one, one.shares)
        for one in wet:
            share = after[one.component].share
            if not one.changes or share is None or share != one.shares or share == states[one.component].share:
                continue
            self._note(one, share)
        return after

    def _dry_out(self, names: Iterable[str], states: Mapping[str, ComponentState]) -> None:
        """Put back what was set for components of which all policies by now only want to see what would be done."""
        changed = set(self._guard.changed())
        for name in names:
            if states[name].cgroup in changed:
                self._release(name, states[name].cgroup)

    def _note(self, decision: Decision, share: int) -> None:
        """Remember a change for the policy's status."""
        name = decision.component.partition("/")[2]
        message = f"shares {decision.previous} -> {share}: {decision.reason}"
        self._last[decision.channel or ""] = LastDecision(time.time(), name, message)

    # ---- what the kubelet rewrites

    def _note_resizes(self, view: View, now: float) -> None:
        """See whose resources were changed: the kubelet sets a container's shares anew even for its memory alone."""
        for name, pod in view.pods.items():
            known = self._view.pods.get(name)
            if known is not None and known.uid == pod.uid and known.resources != pod.resources:
                self._resized[name] = now

    def _accept_resizes(self, now: float) -> None:
        """Go on from what the kubelet has set for a resize, and from what a reload of systemd has put back.

        Any other foreign value is left alone for good.
        """
        self._resized = {name: at for name, at in self._resized.items() if now - at < RESIZE}
        if not self._resized and not self._view.reset:
            return
        groups = {one: (one.cgroup, one.cgroup.rpartition("/")[0]) for one in self._view.components}
        self._reloads.keep_only({group for both in groups.values() for group in both})
        for component, both in groups.items():
            for group in both:
                if not self._guard.is_foreign(group):
                    continue
                if component.name in self._resized:
                    log.info("%s: resized: %s is taken as it is now", component.name, group)
                elif self._is_reset(group, now):
                    log.info("%s: %s is as it was found: by systemd, which could not be told", component.name, group)
                else:
                    continue
                self._actor.let_go(group)
                self._controller.forget(component.name)

    def _is_reset(self, group: str, now: float) -> bool:
        """Whether a reload of a systemd that can't be told has put a group back, so that it may be raised anew."""
        try:
            at_original = self._view.reset and self._guard.last(group) == self._guard.found(group)
        except CgroupError:
            return False  # the next look says why
        return at_original and self._reloads.is_over(group, now)

    # ---- what there is to be said

    def _pod_states(self, snapshot: Snapshot) -> dict[str, PodState]:
        """Say of every component which pod it is, and how that is acted on."""
        return {
            one.name: PodState(
                one.name, pod.namespace, pod.name, pod.main, pod.qos.value, level(one), self._means(one, pod).value
            )
            for one in snapshot.components
            if (pod := self._view.pods.get(one.name)) is not None
        }

    def _sights(self, snapshot: Snapshot, pods: Mapping[str, PodState]) -> Iterable[Sight]:
        """Put together what this node has to say, one for each policy."""
        channels = {one.name: one for one in snapshot.channels}
        serves = {one.name: one.channels for one in self._view.components}
        instrument = self._channels
        for judged in self._view.judged:
            channel = channels.get(judged.key) if judged.accepted else None
            rows = tuple(
                row(one, pods[one.name])
                for one in snapshot.components
                if judged.accepted and judged.key in serves[one.name]
            )
            committing = (
                channel is not None
                and channel.height is not None
                and isinstance(instrument, ClusterChannels)
                and instrument.is_local(judged.key)
            )
            yield Sight(
                self._cluster.node, self._actuator(), judged, channel, rows, committing, self._last.get(judged.key)
            )

    def _actuator(self) -> str:
        """Say what was chosen at the start."""
        return f"{self._chosen.means}: {self._chosen.text}"

    def _means(self, state: ComponentState, pod: Pod) -> Means:
        """Say by which means one component is acted on."""
        if self._resizer is not None and self._resizer.record(pod.uid) is not None:
            return Means.RESIZE
        return Means.NRI if self._owners.get(state.cgroup, "").startswith(f"{NRI} ") else Means.FILES

    def _state(self, pods: Mapping[str, PodState]) -> KubernetesState:
        """Say what metrics and `qioi status` show of the cluster."""
        requests = {f"{verb} {code}": count for (verb, code), count in sorted(self._cluster.api.requests.items())}
        refused = tuple(f"{one.namespace}/{one.name}: {one.message}" for one in self._view.judged if not one.accepted)
        means = tuple(f"{one.means}: {one.text}" for one in self._offers)
        return KubernetesState(self._cluster.node, self._actuator(), tuple(pods.values()), requests, refused, means)


def row(state: ComponentState, pod: PodState) -> Row:
    """Say how one component is, for a policy's status."""
    where = "pod, container" if pod.actuator == Means.RESIZE.value else pod.level
    return Row(state.name.partition("/")[2], state.role, pod.qos, where, state, pod.actuator)


def level(state: ComponentState) -> str:
    """Say which of a component's groups are moved, from the inside out: its container's, its pod's, or none."""
    if state.placement is None:
        return "none"
    names = ["container" if group == state.cgroup else "pod" for group in state.placement.groups]
    return ", ".join(names) or "none"
