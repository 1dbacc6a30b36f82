"""A cluster's roster: its components are pods of this node, its policies are IsolationPolicy objects."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from qioi.controller.acting import Change
from qioi.controller.guard.guard import Guard
from qioi.controller.other_lever import NO_OTHER_LEVER, OtherLever
from qioi.discovery.owners import EngineOwners
from qioi.kernel.errors import CgroupError
from qioi.kubernetes.actuators import Means, choose, story
from qioi.kubernetes.choice import Choice
from qioi.kubernetes.cluster import Cluster, View
from qioi.kubernetes.events import Teller
from qioi.kubernetes.pod_requests import PodRequests
from qioi.kubernetes.pods import Pod, is_resized
from qioi.kubernetes.reloads import Reloads
from qioi.kubernetes.remote import ClusterChannels
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.reports import DRY_RUN, NO_RIGHT, LastDecision, Row, Sight, is_active
from qioi.kubernetes.resizer import Resizer
from qioi.model import Component, Owner, OwnerKind
from qioi.roster import Listing, Roster
from qioi.settings.config import Config
from qioi.show.cluster import KubernetesState, PodState
from qioi.show.snapshot import ComponentState, Snapshot

log = logging.getLogger("qioi")

#: Seconds within which the kubelet applies a resize: it needs about one, and its next look at all pods is 10 s away.
#: They begin anew when it says that it has applied one that it had put off.
RESIZE = 30.0


class ClusterRoster(Roster):
    """Takes in the cluster's view before each period, and passes the period's outcome to the reporter."""

    def __init__(
        self,
        cluster: Cluster,
        channels: ClusterChannels,
        reporter: Reporter,
        choice: Choice,
        resizer: Resizer | None = None,
        records: EngineOwners | None = None,
    ) -> None:
        self._cluster = cluster
        self._channels = channels
        self._reporter = reporter
        self._choice = choice
        self._offers = choice.offers
        self._chosen = choose(self._offers)
        self._resizer = resizer
        by_request = self._chosen.means is Means.RESIZE
        self._requests = None if resizer is None else PodRequests(resizer, chosen=by_request)
        self._records = records
        self._view = View()
        self._listing = Listing((), {}, complete=False)
        self._teller = Teller()
        self._keeps = False
        self._moved: set[str] = set()  # uids of pods that are moved by their request, as the last period had it
        self._last: dict[str, LastDecision] = {}  # by policy's uid
        self._active_since: dict[str, float] = {}  # by policy's key
        self._resized: dict[str, float] = {}  # when, by pod: NAMESPACE/NAME
        self._reloads = Reloads()

    @property
    def other_lever(self) -> OtherLever:
        """The lever of pods' requests, where they may be moved."""
        return NO_OTHER_LEVER if self._requests is None else self._requests

    def adopt(self, config: Config) -> None:
        """Note whether the end keeps shares; a cluster's roster ignores the configuration's list and policies."""
        self._keeps = config.on_exit == "keep"

    def listing(self, seen: tuple[str, ...]) -> Listing:
        """Give this node's components and policies."""
        return self._listing

    def attend(self, now: float) -> None:
        """Take in the cluster's current view."""
        view = self._cluster.view()
        self._note_resizes(view, now)
        if view.moves(self._view):
            self._listing = Listing(view.components, view.policies, view.owners, complete=view.complete)
        self._view = view
        if self._requests is not None:
            self._requests.view = view

    def problems(self) -> Mapping[str, str]:
        """Give the problems in following the cluster, reporting to it, telling owners and moving requests."""
        problems = dict(self._view.problems)
        if self._reporter.problem:
            problems["kubernetes status"] = self._reporter.problem
        if self._records is not None and (behind := self._records.problem()):
            problems["records"] = behind
        if self._is_powerless():
            problems["requests"] = "no right to restore those of some pods: run `kubectl qioi restore`"
        why_files = {} if self._requests is None else self._requests.why_files
        return problems | {f"resize of {name}": why for name, why in why_files.items()}

    def retaken(self, now: float, guard: Guard) -> Iterator[tuple[str, str]]:
        """Give components and their groups that the kubelet or a reload of systemd has set.

        Their values become the new originals. Any other foreign value is left alone for good.
        """
        self._choose_again(guard)
        self._resized = {name: at for name, at in self._resized.items() if now - at < RESIZE}
        if not self._resized and not self._view.reset:
            return
        groups = {one: both_groups(one) for one in self._view.components}
        self._reloads.keep_only({group for both in groups.values() for group in both})
        for component, both in groups.items():
            for group in both:
                if not guard.is_foreign(group):
                    continue
                if pod_of(component.name) in self._resized:
                    log.info("%s: resized: %s is taken as it is now", component.name, group)
                elif self._is_reset(group, now, guard):
                    log.info("%s: %s is as it was found: by systemd, which could not be told", component.name, group)
                else:
                    continue
                yield component.name, group

    def _choose_again(self, guard: Guard) -> None:
        """Take over what has been learned of the means while nothing is raised: a share goes back as it was raised."""
        groups = {group for one in self._view.components for group in both_groups(one)}
        if self._choice.offers is self._offers or not guard.raised().isdisjoint(groups):
            return
        self._offers = self._choice.offers
        self._chosen = choose(self._offers)
        log.info("actuator %s (chosen)", self._chosen)
        if self._requests is not None:
            self._requests.chosen = self._chosen.means is Means.RESIZE

    def tell(self, now: float, snapshot: Snapshot, made: Iterable[Change]) -> Snapshot:
        """Pass events and states to the reporter; give the snapshot with this node's part added."""
        self._note(made)
        view = self._view
        self._reporter.tell(self._teller.step(snapshot.components, view.pods, now, snapshot.time, view.running))
        pods = self._pod_states(snapshot)
        self._moved = {view.pods[name].uid for name, one in pods.items() if one.actuator == Means.RESIZE.value}
        self._reporter.offer({one.judged.path: one for one in self._sights(snapshot, pods, now)})
        return replace(snapshot, kubernetes=self._state(pods))

    def end(self) -> None:
        """Tell of which pods interference is released; call it once shares and requests are put back."""
        self._reporter.tell(self._teller.end(time.time(), self._is_back))

    def _is_back(self, pod: Pod) -> bool:
        """Whether a pod's shares are put back at the end: files' may be kept, requests are restored if they can be."""
        if self._resizer is not None and self._resizer.record(pod.uid) is not None:
            return False
        return pod.uid in self._moved or not self._keeps

    def _note(self, made: Iterable[Change]) -> None:
        """Remember changes for the policies' statuses, and forget those of policies that are gone."""
        uids = {one.uid for one in self._view.judged}
        self._last = {uid: one for uid, one in self._last.items() if uid in uids}
        in_force = {one.key: one.uid for one in self._view.judged if one.accepted}
        for decision, share in made:
            if decision.channel in in_force:
                name = decision.component.partition("/")[2]
                message = f"shares {decision.previous} -> {share}: {decision.reason}"
                self._last[in_force[decision.channel]] = LastDecision(time.time(), name, message)

    def _note_resizes(self, view: View, now: float) -> None:
        """Note pods that are resized: the kubelet then sets a container's shares, even for memory alone."""
        for name, pod in view.pods.items():
            known = self._view.pods.get(name)
            if known is not None and known.uid == pod.uid and is_resized(known, pod):
                self._resized[name] = now

    def _is_reset(self, group: str, now: float, guard: Guard) -> bool:
        """Whether a reload of systemd, which cannot be told of shares, reset a group that may be raised again."""
        try:
            at_original = self._view.reset and guard.last(group) == guard.found(group)
        except CgroupError:
            return False  # the next look reports the reason
        return at_original and self._reloads.is_over(group, now)

    # ---- what is reported

    def _pod_states(self, snapshot: Snapshot) -> dict[str, PodState]:
        """Give every component's pod, with the level and the means by which it is acted on."""
        owners = {one.name: one.owner for one in self._view.components}
        return {
            one.name: PodState(
                one.name,
                pod.namespace,
                pod.name,
                pod.main,
                pod.qos.value,
                level(one),
                self._means(pod, owners[one.name]).value,
            )
            for one in snapshot.components
            if (pod := self._view.pods.get(one.name)) is not None
        }

    def _sights(self, snapshot: Snapshot, pods: Mapping[str, PodState], now: float) -> Iterable[Sight]:
        """Give what this node reports in each policy's status."""
        channels = {one.name: one for one in snapshot.channels}
        self._active_since = {
            name: self._active_since.get(name, now) for name, one in channels.items() if is_active(one)
        }
        serves = {one.name: one.channels for one in self._view.components}
        prefix = DRY_RUN if snapshot.dry_run else NO_RIGHT if self._is_powerless() else ""
        actuator = f"{prefix}{story(self._offers)}"
        for judged in self._view.judged:
            channel = channels.get(judged.key) if judged.accepted else None
            rows = tuple(
                row(one, pods[one.name])
                for one in snapshot.components
                if judged.accepted and judged.key in serves[one.name] and one.name in pods
            )
            committing = channel is not None and channel.height is not None and self._channels.is_local(judged.key)
            active_for = now - self._active_since.get(judged.key, now)
            last = self._last.get(judged.uid)
            looks = self._view.looks
            looked = None if looks is None else looks.last(judged.namespace, now)
            node = self._cluster.node
            alive = self._cluster.reports.alive(judged.key, now)
            problem = self._view.problem_of(judged)
            yield Sight(node, actuator, judged, channel, rows, committing, active_for, last, problem, looked, alive)

    def _is_powerless(self) -> bool:
        """Whether a pod's request is left changed that only somebody with more rights can put back."""
        return self._resizer is not None and self._resizer.powerless

    def _means(self, pod: Pod, owner: Owner | None) -> Means:
        """Give the means by which a component is acted on, which has this owner."""
        if self._requests is not None and self._requests.moves(pod.uid):
            return Means.RESIZE
        return Means.NRI if owner is not None and owner.kind == OwnerKind.NRI else Means.FILES

    def _state(self, pods: Mapping[str, PodState]) -> KubernetesState:
        """Give what metrics and `qioi status` show of the cluster."""
        requests = {f"{verb} {code}": count for (verb, code), count in sorted(self._cluster.api.requests.items())}
        refused = tuple(f"{one.namespace}/{one.name}: {one.message}" for one in self._view.judged if not one.accepted)
        means = tuple(map(str, self._offers))
        return KubernetesState(self._cluster.node, str(self._chosen), tuple(pods.values()), requests, refused, means)


def row(state: ComponentState, pod: PodState) -> Row:
    """Make a component's row of a policy's status."""
    where = "pod, container" if pod.actuator == Means.RESIZE.value else pod.level
    return Row(state.name.partition("/")[2], state.role, pod.qos, where, state, pod.actuator)


def both_groups(one: Component) -> tuple[str, str]:
    """Give a component's group, and its pod's above it."""
    return one.cgroup, one.cgroup.rpartition("/")[0]


def pod_of(component: str) -> str:
    """Give NAMESPACE/NAME of a component's pod; those beside the main one are called NAMESPACE/NAME/CONTAINER."""
    return "/".join(component.split("/")[:2])


def level(state: ComponentState) -> str:
    """Name the groups that are moved for a component, from the inside out: its container's, its pod's, or none."""
    if state.placement is None:
        return "none"
    names = ["container" if group == state.cgroup else "pod" for group in state.placement.groups]
    return ", ".join(names) or "none"
