"""What other nodes say of a channel's commits, in its policy's status, and for how long it is believed.

Clocks of nodes may differ, so a report's age is counted from when it came here. A node renews its report while commits
go on (:data:`~qioi.kubernetes.reports.RENEW`); one that is not renewed ages, and after :data:`FORGET` it is no more:
the control laws then do what they do without input, hold and go back to the default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from qioi.kubernetes.policies import Judged
from qioi.kubernetes.reports import RENEW
from qioi.model import ChannelReading, Component, LeaderChange
from qioi.monitor.commits.sources import Channels, SourceState
from qioi.monitor.logs.component_logs import LogChannels

#: Seconds for which a report counts as new: until the next one is overdue, and the writers' least pause more.
FRESH = RENEW + 5.0
#: Seconds after which it is forgotten.
FORGET = 60.0


@dataclass(frozen=True, slots=True)
class Report:
    """One node's report, and when it came (monotonic)."""

    node: str
    stamp: str
    throughput: float
    age: float
    came: float

    def reading(self, key: str, now: float) -> ChannelReading | None:
        """Make a reading of it, as old as it is by now."""
        held = max(0.0, now - self.came)
        if held > FORGET:
            return None
        return ChannelReading(key, self.throughput, self.age + max(0.0, held - FRESH))


class Reports:
    """All other nodes' newest reports, by policy."""

    def __init__(self, own_node: str) -> None:
        self._own = own_node
        self._reports: dict[str, dict[str, Report]] = {}

    def take(self, judged: Iterable[Judged], now: float) -> None:
        """Read the policies' status; a report that was there before keeps its time."""
        after: dict[str, dict[str, Report]] = {}
        for one in judged:
            before = self._reports.get(one.key, {})
            for raw in (one.status or {}).get("nodes") or () if one.accepted else ():
                report = read_report(raw, now)
                if report is None or report.node == self._own:
                    continue
                known = before.get(report.node)
                same = known is not None and known.stamp == report.stamp
                after.setdefault(one.key, {})[report.node] = known if known is not None and same else report
        self._reports = after

    def reading(self, key: str, now: float) -> ChannelReading | None:
        """Give the newest report of a policy's channel as a reading."""
        reports = self._reports.get(key, {}).values()
        newest = max(reports, key=lambda one: one.came, default=None)
        return newest.reading(key, now) if newest else None


def read_report(raw: Mapping[str, object], now: float) -> Report | None:
    """Read one entry of a status; ``None`` for a node that sees no commits, or what makes no sense."""
    throughput, age = raw.get("throughput"), raw.get("commitAgeSeconds", 0)
    numbers = all(isinstance(one, int | float) and 0 <= one < 1e9 for one in (throughput, age))
    if not numbers or not isinstance(throughput, int | float) or not isinstance(age, int | float):
        return None
    return Report(str(raw.get("name")), str(raw.get("observedAt")), float(throughput), float(age), now)


class ClusterChannels:
    """Throughput by policy: from this node's logs, each namespace for itself, else from other nodes' reports."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._namespaces: dict[str, Channels] = {}
        self._keys: tuple[str, ...] = ()
        self._local: frozenset[str] = frozenset()

    def watch(self, components: Iterable[Component], channels: Iterable[str]) -> None:
        """Go on with these components and policies."""
        self._keys = tuple(channels)
        logged = [one for one in components if one.log]
        self._local = frozenset(key for one in logged for key in one.channels)
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
        """Read on in every log, and take reports where no log of this node speaks of a channel."""
        readings: dict[str, ChannelReading] = {}
        for namespace, channels in self._namespaces.items():
            for name, reading in channels.read(now).items():
                key = f"{namespace}/{name}"
                readings[key] = replace(reading, channel=key)
        for key in self._keys:
            local = readings.get(key)
            if key not in self._local or local is None or local.age is None:
                remote = self._reports.reading(key, now)
                if remote is not None:
                    readings[key] = remote
        return readings

    def is_local(self, key: str) -> bool:
        """Whether logs on this node speak of a policy's channel."""
        return key in self._local

    def states(self) -> list[SourceState]:
        """Say how each log is doing."""
        return [state for channels in self._namespaces.values() for state in channels.states()]

    def elections(self) -> list[LeaderChange]:
        """Give the leader changes since the call before; one that names no channel is of its whole namespace."""
        changes = []
        for namespace, channels in self._namespaces.items():
            inside = f"{namespace}/"
            for one in channels.elections():
                named = [inside + one.channel] if one.channel else [key for key in self._keys if key.startswith(inside)]
                changes += [replace(one, channel=key) for key in named]
        return changes

    def seen(self) -> tuple[str, ...]:
        """Name the channels that commits were seen of."""
        return tuple(f"{space}/{name}" for space, channels in self._namespaces.items() for name in channels.seen())

    def close(self) -> None:
        """Close every log."""
        for channels in self._namespaces.values():
            channels.close()
