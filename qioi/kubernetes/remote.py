"""Read what other nodes report of a channel's commits in its policy's status.

Clocks of nodes may differ, so a report's age counts from its arrival here. A node renews its report while commits go on
(:data:`~qioi.kubernetes.reports.RENEW`). A report that is not renewed ages, and is dropped :data:`FORGET` seconds after
its arrival: the control laws then have no input, so they hold, and return to the default. Of a report that was there
before a policy was first read nobody knows how old it is, so it counts once it is renewed. The same holds for what a
list brings, which may be minutes after the one before, and for what comes first after a gap in a watch: only under a
watch that goes on does a report come when it is made. Until then the report before it counts, for as long as it would.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from msgspec.structs import replace

from qioi.kubernetes.policies import Judged
from qioi.kubernetes.policy_watch import Looks
from qioi.kubernetes.reports import ALIVE, IDLE, RENEW
from qioi.model import ChannelReading, Component, LeaderChange, Role
from qioi.monitor.commits.sources import SourceState
from qioi.monitor.logs.component_logs import LogChannels
from qioi.monitor.logs.work import Shares

#: Seconds for which a report counts as new: until its renewal is overdue, plus the writers' least pause.
FRESH = RENEW + 5.0
#: Seconds after which a report is dropped.
FORGET = 60.0


@dataclass(frozen=True, slots=True)
class Report:
    """One node's report; ``came`` is the monotonic time of its arrival, ``new`` whether it was made not long before.

    ``heard`` is the monotonic time at which its node's last report came: one that is not new only tells that it lives.
    """

    node: str
    stamp: str
    throughput: float
    age: float
    came: float
    new: bool
    heard: float

    @property
    def committed(self) -> float:
        """The monotonic time of the last commit that the node had seen."""
        return self.came - self.age

    def aged(self, now: float) -> float:
        """Give the seconds since the last commit, as they count at ``now``: a report that is new does not age."""
        return self.age + max(0.0, now - self.came - FRESH)


class Reports:
    """Holds all other nodes' newest reports, by policy."""

    def __init__(self, own_node: str) -> None:
        self._own = own_node
        self._reports: dict[str, dict[str, Report]] = {}
        self._taken: dict[str, Judged] = {}  # the policies as they were read last
        self._watched: Set[str] = frozenset()  # the namespaces that were watched then

    def take(self, judged: Iterable[Judged], now: float, looks: Looks) -> None:
        """Read the policies' status; a report that was known before keeps its time of arrival."""
        accepted = {one.key: one for one in judged if one.accepted}
        self._reports = {
            key: self._reports[key] if one is self._taken.get(key) else self._read(one, now, looks)
            for key, one in accepted.items()
        }
        self._taken, self._watched = accepted, looks.watched

    def _read(self, one: Judged, now: float, looks: Looks) -> dict[str, Report]:
        before = self._reports.get(one.key, {})
        new = one.key in self._taken and one.namespace in looks.live and one.namespace in self._watched
        after: dict[str, Report] = {}
        for raw in (one.status or {}).get("nodes") or ():
            report = read_report(raw, now, new)
            if report is None or report.node == self._own:
                continue
            known = before.get(report.node)
            if known is not None and known.stamp == report.stamp:
                after[report.node] = known
            elif known is not None and known.new and not report.new:
                after[report.node] = dataclasses.replace(known, stamp=report.stamp, heard=now)
            else:
                after[report.node] = report
        return after

    def alive(self, key: str, now: float) -> frozenset[str]:
        """Name the nodes whose reports of a policy's channel have come within :data:`ALIVE` seconds, by our clock.

        All that have reported count at first: else a daemon that starts would take over from living nodes.
        """
        return frozenset(node for node, one in self._reports.get(key, {}).items() if now - one.heard < ALIVE)

    def reading(self, key: str, now: float, after: float = float("-inf")) -> ChannelReading | None:
        """Make a reading of the report of a policy's channel that has the least age, of those that are not too old.

        Only reports count that know of a commit after ``after``; of two with the same age the newer one does.
        """
        reports = self._reports.get(key, {}).values()
        kept = [one for one in reports if one.new and now - one.came <= FORGET and one.committed > after]
        chosen = min(kept, key=lambda one: (one.aged(now), -one.came), default=None)
        return None if chosen is None else ChannelReading(key, chosen.throughput, chosen.aged(now))


def read_report(raw: Mapping[str, object], now: float, new: bool) -> Report | None:
    """Read one entry of a status; ``None`` for a node that sees no commits, and for invalid numbers."""
    throughput, age = raw.get("throughput"), raw.get("commitAgeSeconds", 0)
    numbers = all(isinstance(one, int | float) and 0 <= one < 1e9 for one in (throughput, age))
    if not numbers or not isinstance(throughput, int | float) or not isinstance(age, int | float):
        return None
    return Report(str(raw.get("name")), str(raw.get("observedAt")), float(throughput), float(age), now, new, now)


class ClusterChannels:
    """Throughput by policy: from the logs of this node's peers, by namespace, otherwise from other nodes' reports.

    A peer that stalls says nothing about its channel, so another node's report counts that knows of later commits.
    A reading of a report has no height.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._namespaces: dict[str, LogChannels] = {}
        self._looks = 0
        self._keys: tuple[str, ...] = ()
        self._local: frozenset[str] = frozenset()

    def watch(self, components: Iterable[Component], channels: Iterable[str]) -> None:
        """Follow these components and policies."""
        self._keys = tuple(channels)
        logged = [one for one in components if one.log]
        # An orderer's log tells of elections, and not of commits.
        self._local = frozenset(key for one in logged if one.role is Role.PEER for key in one.channels)
        wanted = {one.name.split("/", 1)[0] for one in logged}
        for gone in set(self._namespaces) - wanted:
            self._namespaces.pop(gone).close()
        for namespace in sorted(wanted):
            inside = f"{namespace}/"
            own = [
                dataclasses.replace(one, channels=tuple(key.removeprefix(inside) for key in one.channels))
                for one in logged
                if one.name.startswith(inside)
            ]
            names = [key.removeprefix(inside) for key in self._keys if key.startswith(inside)]
            if namespace in self._namespaces:
                self._namespaces[namespace].watch(own, names)
            else:
                self._namespaces[namespace] = LogChannels(own, names)

    def read(self, now: float) -> dict[str, ChannelReading]:
        """Read on in every log; choose between logs and reports by channel. One that neither tells of is left out."""
        readings: dict[str, ChannelReading] = {}
        shares = Shares(sum(channels.logs for channels in self._namespaces.values()))
        self._looks += 1
        turn = deque(self._namespaces.items())
        turn.rotate(self._looks)
        for namespace, channels in turn:
            for name, reading in channels.read(now, shares).items():
                key = f"{namespace}/{name}"
                readings[key] = replace(reading, channel=key)
        for key in self._keys:
            chosen = self._choose(key, readings.get(key), now)
            if chosen is not None:
                readings[key] = chosen
        return readings

    def _choose(self, key: str, local: ChannelReading | None, now: float) -> ChannelReading | None:
        """Choose between what this node's logs and other nodes' reports say of a channel."""
        if local is not None and key not in self._local:
            local = ChannelReading(key, None, None)  # its peers have left: what they logged is over
        if local is None or local.age is None:
            return self._reports.reading(key, now) or local
        if local.age > IDLE:  # reports travel for a moment, so on an idle channel they seem a little newer
            return self._reports.reading(key, now, now - local.age + IDLE) or local
        return local

    def is_local(self, key: str) -> bool:
        """Whether a peer on this node logs the commits of a policy's channel."""
        return key in self._local

    def states(self) -> list[SourceState]:
        """Give the state of each log."""
        return [state for channels in self._namespaces.values() for state in channels.states()]

    def elections(self) -> list[LeaderChange]:
        """Give the leader changes since the last call; one without a channel counts for its whole namespace."""
        changes = []
        for namespace, channels in self._namespaces.items():
            inside = f"{namespace}/"
            for one in channels.elections():
                named = [inside + one.channel] if one.channel else [key for key in self._keys if key.startswith(inside)]
                changes += [replace(one, channel=key) for key in named]
        return changes

    def seen(self) -> tuple[str, ...]:
        """Name the channels whose commits were seen."""
        return tuple(f"{space}/{name}" for space, channels in self._namespaces.items() for name in channels.seen())

    def heard(self, since: float) -> tuple[str, ...]:
        """Name the channels that a commit came of on this node at that monotonic time or later."""
        return tuple(f"{space}/{name}" for space, one in self._namespaces.items() for name in one.heard(since))

    def close(self) -> None:
        """Close every log."""
        for channels in self._namespaces.values():
            channels.close()
