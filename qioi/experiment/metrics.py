"""The metrics of a cell: flat names with a unit and a direction, so that files can name them and pages spell them."""

from __future__ import annotations

from dataclasses import dataclass

from qioi.model import Role


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``better`` is 1 where more is better, -1 where less is, 0 where neither."""

    title: str
    unit: str
    better: int = 0


_ROLES = (Role.PEER, Role.ORDERER, Role.CHAINCODE, Role.BROKER, Role.REPLICA)

METRICS: dict[str, Metric] = {
    "throughput": Metric("throughput", "tps", 1),
    "goodput": Metric("valid among all that were due", "%", 1),
    "operations": Metric("writes", "/s", 1),
    "varied": Metric("varied", ""),
    "signatures": Metric("part of what verifying signatures allows", "%", 1),
    "offered": Metric("offered", "tps"),
    "clients": Metric("clients", ""),
    "mean": Metric("latency, mean", "ms", -1),
    "p50": Metric("latency p50", "ms", -1),
    "p95": Metric("latency p95", "ms", -1),
    "p99": Metric("latency p99", "ms", -1),
    "failed": Metric("failed or not sent", "", -1),
    "client.cores": Metric("CPU of the load client", "cores"),
    "ledger.cores": Metric("CPU of the ledger", "cores"),
    "ledger.ms_per_tx": Metric("CPU of the ledger per transaction", "ms", -1),
    "neighbours.work": Metric("neighbours' work", "/s", 1),
    "neighbours.due": Metric("neighbours' part of their due", "%", 1),
    "neighbours.cores": Metric("CPU of the neighbours", "cores"),
    "neighbours.delay": Metric("neighbours' scheduling delay", "ms", -1),
    "neighbours.slice": Metric("neighbours' time slice", "ms"),
    "neighbours.switches": Metric("neighbours' switches", "/s"),
    "daemon.cores": Metric("CPU of QiOi", "cores", -1),
    "daemon.memory": Metric("memory of QiOi", "MB", -1),
    "reaction": Metric("neighbours' start to shares written", "s", -1),
    "release": Metric("neighbours' end to shares at default", "s", -1),
    "flush.p95": Metric("disk flush of 4 KiB, p95", "ms", -1),
    "steal": Metric("steal", "%", -1),
    "kernel": Metric("CPU of the kernel's threads and of interrupts", "%", -1),
    "others": Metric("CPU of processes outside the lab", "%", -1),
    "perf.lost": Metric("scheduler's events that perf lost", "%", -1),
    "perf.missed": Metric("of perf's time, after its file was full", "%", -1),
    "pressure": Metric("PSI cpu some", "%"),
    "pressure.io": Metric("PSI io some", "%"),
    **{
        f"{role.value}.{key}": Metric(f"{role.value}s' {title}", unit, better)
        for role in _ROLES
        for key, title, unit, better in (
            ("delay", "scheduling delay", "ms", -1),
            ("slice", "time slice", "ms", 0),
            ("switches", "switches", "/s", 0),
            ("waiting", "runnable time spent waiting", "%", -1),
            ("cores", "CPU", "cores", 0),
            ("shares", "mean share", "", 0),
        )
    },
}
#: Metrics of which there are as many as the client or the nodes have stages (_STAGES), or the load channels or kinds
#: of operations.
_OPEN = {
    "stage": Metric("client's mean time", "ms", -1),
    "node": Metric("mean time", "ms", -1),
    "part": Metric("part of the latency", "%"),
    "busy": Metric("busiest node's time at work", "%", 0),
    "tenant": Metric("tenant", ""),
    "kind": Metric("latency", "ms", -1),
    "cpu": Metric("CPU per transaction", "us", -1),
    "primary": Metric("primary's threads at work", "%", 0),
    "backup": Metric("a backup's threads at work", "%", 0),
}
#: What is known of a kind of operation.
_KIND = ("count", "min", "p25", "p50", "p75", "max")

#: The stages of a replica of `qioi-ledger bft-bench`; the runtime has the rest of its CPU time.
_PIPELINE = ("input", "batch", "worker", "execute", "checkpoint", "output")
#: The client's stages, the nodes', and those that say how much of its time a node spends in them.
_STAGES = {
    "stage": ("endorse", "submit", "commit"),
    "node": ("endorse", "order", "validate", "flush"),
    "part": ("endorse", "order", "validate"),
    "busy": ("order", "write", "apply", "verify", "commit", "flush"),
    "cpu": (*_PIPELINE, "runtime"),
    "primary": _PIPELINE,
    "backup": _PIPELINE,
}

#: What can be drawn over time, and its axis' title.
SERIES = {
    "throughput": "commits per second",
    "p95": "p95 of each second, ms",
    "shares": "CPU shares by role",
    "delay": "mean delay, ms",
    "neighbours": "neighbours' work/s",
}


def metric(name: str) -> Metric:
    """Describe a metric by its name."""
    if name in METRICS:
        return METRICS[name]
    kind, _, rest = name.partition(".")
    base = _OPEN[kind]
    if kind == "tenant":
        channel, _, inner = rest.rpartition(".")
        return Metric(f"{channel}: {METRICS[inner].title}", METRICS[inner].unit, METRICS[inner].better)
    if kind == "kind":
        function, _, part = rest.rpartition(".")
        return Metric(f"{function}: number", "") if part == "count" else Metric(f"{function}: {part}", "ms", -1)
    return Metric(f"{base.title}: {rest}", base.unit, base.better)


def known_metric(name: str) -> bool:
    """Whether a file may name it."""
    kind, _, rest = name.partition(".")
    if kind == "tenant":
        return rest.rpartition(".")[2] in METRICS and "." in rest
    if kind == "kind":
        return rest.rpartition(".")[2] in _KIND and "." in rest
    return name in METRICS or rest in _STAGES.get(kind, ())


def metric_names() -> list[str]:
    """List what a file may name; tenants and kinds of operations have names of their own."""
    stages = [f"{kind}.{stage}" for kind, names in _STAGES.items() for stage in names]
    return [*METRICS, *stages, "tenant.CHANNEL.METRIC", *(f"kind.NAME.{part}" for part in _KIND)]


def known_kind(name: str) -> bool:
    """Whether it names a kind of operation, for a box plot."""
    kind, _, function = name.partition(".")
    return kind == "kind" and bool(function) and "." not in function
