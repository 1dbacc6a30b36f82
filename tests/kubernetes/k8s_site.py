"""One node's roster, with pods and policies that a test puts there, and the logs of their peers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from commit_line import commit_line
from k8s_objects import policy_object

from qioi.controller.acting import Change
from qioi.kubernetes.actuators import Means, Offer
from qioi.kubernetes.cgroups import Driver, Layout
from qioi.kubernetes.choice import Choice
from qioi.kubernetes.client import Access, Api, Object
from qioi.kubernetes.cluster import Cluster, View, look
from qioi.kubernetes.pods import read_pod, slim
from qioi.kubernetes.policies import judge
from qioi.kubernetes.policy_watch import Looks
from qioi.kubernetes.remote import ClusterChannels
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.reports import Sight, body
from qioi.kubernetes.roster import ClusterRoster
from qioi.model import ChannelReading, Component
from qioi.show.snapshot import ChannelState, ComponentState, ConfigState, Snapshot

KEY = "fab/payments"
LAYOUT = Layout(Driver.CGROUPFS)
WALL = 1_800_000_000.0


class ToldCluster(Cluster):
    """A cluster that a test tells what there is, instead of an API server."""

    told = View()

    def view(self) -> View:
        return self.told


class Site:
    """One node; ``now`` is the monotonic time, and ``WALL + now`` the wall clock's."""

    def __init__(
        self, folder: Path, node: str = "n1", offers: tuple[Offer, ...] = (Offer(Means.FILES, True, "cpu.shares"),)
    ) -> None:
        api = Api(Access("http://127.0.0.1:9"))
        self.node, self.logs = node, folder / f"logs-of-{node}"
        self.cluster = ToldCluster(api, node, folder, str(self.logs))
        self.channels = ClusterChannels(self.cluster.reports)
        self.reporter = Reporter(api, node)
        self.roster = ClusterRoster(self.cluster, self.channels, self.reporter, Choice(offers, api))
        self.blocks = 0
        self.dry_run = False

    def show(
        self, now: float, pods: Iterable[Object], status: dict[str, Any] | None = None, uid: str = "uid-of-pay",
        layout: Layout | None = LAYOUT,
    ) -> None:  # fmt: skip
        """Have the node see these pods, and the policy with this status."""
        policy = {**policy_object(), "status": status or {}}
        policy["metadata"]["uid"] = uid
        judged = judge([policy])
        read = tuple(one for one in map(read_pod, map(slim, pods)) if one is not None)
        spaces = frozenset(one.namespace for one in judged)
        self.cluster.reports.take(judged, now, Looks(now, spaces, spaces))
        self.cluster.told = look(read, judged, layout, str(self.logs))
        for one in self.components:
            if one.log and not Path(one.log).exists():
                Path(one.log).parent.mkdir(parents=True)
                Path(one.log).touch()
        self.roster.attend(now)
        self.channels.watch(self.components, self.cluster.told.policies)

    @property
    def components(self) -> tuple[Component, ...]:
        return self.cluster.told.components

    def commit(self, name: str = "peer0") -> None:
        """Have a peer log a block of 10 transactions; it counts from when it is read."""
        self.blocks += 1
        (log,) = (one.log for one in self.components if one.name == f"fab/{name}")
        assert log is not None
        with Path(log).open("a") as file:
            line = commit_line("payments", self.blocks, 10, datetime(2026, 1, 1, tzinfo=UTC))
            file.write(f"2026-01-01T00:00:00.0Z stderr F {line}")

    def read(self, now: float) -> ChannelReading:
        return self.channels.read(now)[KEY]

    def sight(self, now: float, reading: ChannelReading, made: Iterable[Change] = ()) -> Sight:
        """Give what the node would report of the policy, after these changes."""
        rows = tuple(ComponentState(one.name, one.role.value, one.cgroup) for one in self.components)
        self.roster.tell(now, self.snapshot(now, reading, rows), made)
        (sight,) = self.reporter._sights.values()
        return sight

    def snapshot(self, now: float, reading: ChannelReading, rows: tuple[ComponentState, ...]) -> Snapshot:
        """Give a period's outcome."""
        states = (ChannelState(KEY, "adaptive", None, reading.throughput, reading.age, reading.height),)
        config = ConfigState("qioi.yaml", 0.0)
        return Snapshot("1", 1, WALL + now, 1.0, self.dry_run, "files", 1, states, rows, config)

    def entry(self, now: float, reading: ChannelReading) -> dict[str, Any]:
        """Give the node's own entry in the policy's status."""
        (entry,) = body(self.sight(now, reading), WALL + now)["status"]["nodes"]
        return dict(entry)

    def close(self) -> None:
        self.channels.close()
