"""Prometheus metrics, made from the snapshot when they are asked for. Names follow Prometheus' conventions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from qioi.controller.findings.bottleneck import Kind
from qioi.model.names import escaped
from qioi.show import trouble
from qioi.show.cluster import kubernetes_metrics
from qioi.show.snapshot import ChannelState, ComponentState, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Row = tuple[list[str], float | None]


#: Upper bounds in seconds: of the period's work, which should take milliseconds, and of its delay.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)


class Meter:
    """What no single snapshot shows: how long periods took, how late they began, how old each input is."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._loop = Histogram("qioi_loop_duration_seconds", "Time that a period's work takes",
                               buckets=BUCKETS, registry=self.registry)  # fmt: skip
        self._late = Histogram("qioi_loop_lateness_seconds", "How long after its deadline a period begins",
                               buckets=BUCKETS, registry=self.registry)  # fmt: skip
        self._periods = 0
        self._inputs: dict[tuple[str, str], tuple[int, float]] = {}
        self.registry.register(self)

    def observe(self, snapshot: Snapshot) -> None:
        """Take one snapshot in; one that is not from a new period changes nothing."""
        if snapshot.totals.periods == self._periods:
            return
        self._periods = snapshot.totals.periods
        self._loop.observe(snapshot.loop)
        self._late.observe(max(0.0, snapshot.lateness))
        now, inputs = time.monotonic(), {}
        for one in snapshot.sources:
            lines, since = self._inputs.get((one.component, one.kind), (-1, now))
            inputs[one.component, one.kind] = (one.lines, now if one.lines != lines else since)
        self._inputs = inputs  # replaced as a whole: another thread may read it

    def collect(self) -> Iterator[Metric]:
        """Give the ages of all inputs."""
        now = time.monotonic()
        ages: Iterator[Row] = (([*key], now - since) for key, (_, since) in self._inputs.items())
        yield gauge("qioi_input_age_seconds", "Time since a log or a metrics endpoint last said anything",
                    ["component", "kind"], ages)  # fmt: skip


def render(snapshot: Snapshot, meter: Meter | None = None) -> bytes:
    """Render everything, the process's own CPU time and memory (``qioi_process_*``) included."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SnapshotCollector(snapshot))
    ProcessCollector(namespace="qioi", registry=registry)
    return generate_latest(registry) + (generate_latest(meter.registry) if meter else b"")


class SnapshotCollector:
    """Speaks prometheus_client's collector protocol for one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Give every family. A value that is not known is left out, as Prometheus wants it."""
        yield from channel_metrics(self._snapshot.channels)
        yield from component_metrics(self._snapshot.components)
        yield from self._sources()
        yield from self._own()
        if self._snapshot.kubernetes is not None:
            yield from kubernetes_metrics(self._snapshot.kubernetes)

    def _sources(self) -> Iterator[Metric]:
        sources = [one for one in self._snapshot.sources if one.kind == "log"]
        endpoints = [one for one in self._snapshot.sources if one.kind == "metrics"]
        label = ["component"]
        yield gauge("qioi_log_up", "Whether the component's log can be read", label,
                    (([s.component], float(s.problem is None)) for s in sources))  # fmt: skip
        yield counter("qioi_log_lines", "Lines looked at", label, (([s.component], s.lines) for s in sources))
        yield counter("qioi_log_commits", "Commit lines read", label, (([s.component], s.commits) for s in sources))
        yield counter("qioi_raft_leader_changes", "Raft leader changes seen in the component's log", label,
                      (([s.component], s.leader_changes) for s in sources))  # fmt: skip

        skipped = (([s.component, reason], count) for s in sources for reason, count in s.skipped.items())
        yield counter("qioi_log_skipped", "Lines on commits that were not believed", ["component", "reason"], skipped)
        yield counter("qioi_log_rotations", "Times that the log's name came to point to another file", label,
                      (([s.component], s.rotations) for s in sources))  # fmt: skip
        yield counter("qioi_log_truncations", "Times that the log was truncated", label,
                      (([s.component], s.truncations) for s in sources))  # fmt: skip
        yield counter("qioi_log_lost_files", "Files rotated away faster than they are read", label,
                      (([s.component], s.lost_files) for s in sources))  # fmt: skip
        yield counter("qioi_log_skipped_bytes", "Bytes of a log passed over, as it grows too fast", label,
                      (([s.component], s.skipped_bytes) for s in sources))  # fmt: skip
        yield gauge("qioi_log_behind", "Whether the log is written faster than it is read", label,
                    (([s.component], float(s.behind)) for s in sources))  # fmt: skip
        yield gauge("qioi_endpoint_up", "Whether the component's metrics endpoint answers", label,
                    (([s.component], float(s.problem is None)) for s in endpoints))  # fmt: skip
        yield counter("qioi_endpoint_pages", "Pages read from it", label, (([s.component], s.lines) for s in endpoints))

    def _own(self) -> Iterator[Metric]:
        snapshot, totals = self._snapshot, self._snapshot.totals
        yield counter("qioi_decisions", "Decisions that asked for another share than the one in force", [],
                      [([], totals.decisions)])  # fmt: skip
        yield counter("qioi_writes", "Writes of shares by result", ["result"],
                      (([str(result)], count) for result, count in totals.writes.items()))  # fmt: skip
        yield counter("qioi_periods", "Periods run", [], [([], totals.periods)])
        yield counter("qioi_periods_early", "Periods that began before their turn, at the onset of interference", [],
                      [([], totals.early)])  # fmt: skip
        yield counter("qioi_periods_late", "Periods that began late by more than a fifth", [], [([], totals.late)])
        yield gauge("qioi_period_seconds", "Time between two periods, as configured", [], [([], snapshot.period)])
        yield gauge("qioi_snapshot_age_seconds", "Time since the last period ended", [],
                    [([], snapshot.snapshot_age)])  # fmt: skip
        yield gauge("qioi_build_info", "The version that runs", ["version"], [([snapshot.version], 1.0)])
        configuration = snapshot.configuration
        yield gauge("qioi_config_last_reload_successful", "Whether the last reload was accepted", [],
                    [([], float(not configuration.problems))])  # fmt: skip
        yield counter("qioi_config_reloads", "Reloads by result", ["result"],
                      ((["accepted"], configuration.reloads), (["refused"], configuration.refused)))  # fmt: skip
        yield gauge("qioi_config_loaded_timestamp_seconds", "When the configuration in force was read", [],
                    [([], configuration.loaded)])  # fmt: skip
        yield gauge("qioi_discovery_problems", "What could not be found or told, as `qioi status` says it", [],
                    [([], len(snapshot.problems))])  # fmt: skip
        troubled = Counter(one.kind for one in snapshot.troubles)
        yield gauge("qioi_unprotected", "Components and channels that are not protected, by the trouble", ["kind"],
                    (([str(kind)], troubled[kind]) for kind in trouble.TroubleKind))  # fmt: skip
        yield gauge("qioi_dry_run", "Whether nothing is written", [], [([], float(snapshot.dry_run))])
        yield gauge("qioi_host_io_pressure_ratio", "Part of the time in which somebody on the host waited for I/O", [],
                    [([], snapshot.io_pressure)])  # fmt: skip
        yield gauge("qioi_best_effort_idle_groups", "Best-effort groups that are idle by our doing", [],
                    [([], len(snapshot.idle_groups))])  # fmt: skip
        yield gauge("qioi_slices_on", "Whether EEVDF slices are in force", [], [([], float(snapshot.slices.on))])
        yield gauge("qioi_component_slice_seconds", "EEVDF slice in force", ["component"],
                    (([name], value * 1e-9) for name, value in snapshot.slices.slices.items()))  # fmt: skip
        if snapshot.boosts is not None:
            yield gauge("qioi_boosts_held_ratio", "Part of the host's CPU that boosted groups hold by weight", [],
                        [([], snapshot.boosts.part)])  # fmt: skip
            yield gauge("qioi_boosts_cap_ratio", "Cap on that part", [], [([], snapshot.boosts.cap)])
        if snapshot.host is not None:
            yield gauge("qioi_host_idle_ratio", "Idle share of the host's CPUs", [], [([], snapshot.host.idle)])
            yield gauge("qioi_host_foreign_ratio", "Share of the host's CPUs used by others than the ledger", [],
                        [([], snapshot.host.foreign)])  # fmt: skip


def channel_metrics(channels: tuple[ChannelState, ...]) -> Iterator[Metric]:
    """Families with one row per channel."""
    label = ["channel"]
    yield gauge("qioi_channel_throughput_tps", "Committed transactions per second", label,
                (([c.name], c.throughput) for c in channels))  # fmt: skip
    yield gauge("qioi_channel_threshold_tps", "Isolation threshold", label,
                (([c.name], c.threshold) for c in channels))  # fmt: skip
    yield gauge("qioi_channel_commit_age_seconds", "Time since the last commit was seen", label,
                (([c.name], c.age) for c in channels))  # fmt: skip
    yield gauge("qioi_channel_orderer_floor_ratio", "Least share of orderers after lost leaders, in defaults", label,
                (([c.name], c.orderer_floor) for c in channels))  # fmt: skip
    kinds = (([c.name, str(kind)], float(kind is c.bottleneck.kind)) for c in channels for kind in Kind)
    yield gauge("qioi_channel_bottleneck", "What the channel waits for: 1 for what holds", ["channel", "kind"], kinds)
    yield gauge("qioi_channel_height", "Highest block seen", label, (([c.name], c.height) for c in channels))


def component_metrics(components: tuple[ComponentState, ...]) -> Iterator[Metric]:
    """Families with one row per component."""
    label = ["component", "role"]
    yield gauge("qioi_component_shares", "CPU share in force, in cgroup v1 units", label,
                (([c.name, c.role], c.share) for c in components))  # fmt: skip
    yield gauge("qioi_component_original_shares", "CPU share it was found with", label,
                (([c.name, c.role], c.original) for c in components))  # fmt: skip
    yield gauge("qioi_component_wanted_shares", "CPU share decided on", label,
                (([c.name, c.role], c.wanted) for c in components))  # fmt: skip
    yield gauge("qioi_component_scheduling_delay_seconds", "Mean wait on the run queue per time slice", label,
                (([c.name, c.role], c.delay) for c in components))  # fmt: skip
    yield gauge("qioi_component_waiting_ratio", "Share of its runnable time spent waiting", label,
                (([c.name, c.role], c.waiting_share) for c in components))  # fmt: skip
    yield gauge("qioi_component_cpu_cores", "CPU used, in cores", label,
                (([c.name, c.role], c.cores) for c in components))  # fmt: skip
    acted = (([c.name, c.role, group], 1.0) for c in components if c.placement for group in c.placement.groups)
    yield gauge("qioi_component_acted_at", "1 for a control group at which it is raised", [*label, "group"], acted)
    yield gauge("qioi_component_taken", "Whether somebody else has changed its share, so that it is left alone", label,
                (([c.name, c.role], float(bool(c.taken))) for c in components))  # fmt: skip
    yield gauge("qioi_component_up", "Whether its control group is there and ours to change", label,
                (([c.name, c.role], float(c.problem is None)) for c in components))  # fmt: skip


def gauge(name: str, text: str, labels: list[str], rows: Iterable[Row]) -> Metric:
    """Make one gauge family."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric([*map(escaped, values)], number)
    return family


def counter(name: str, text: str, labels: list[str], rows: Iterable[Row]) -> Metric:
    """Make one counter family; the library adds ``_total``."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric([*map(escaped, values)], number or 0)
    return family
