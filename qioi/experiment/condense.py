"""From the counters and samples of one cell to its metrics and series, which cover the measured window only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import psutil

from qioi.experiment.drivers import Driven, client_metrics
from qioi.experiment.neighbours import Neighbours
from qioi.experiment.noise import Account, Accounting, disturbance
from qioi.experiment.plan import Cell
from qioi.lab.daemon import DAEMON_GROUP
from qioi.lab.figures import Series
from qioi.lab.flush_probe import Flush, flush_figures
from qioi.lab.lab import CLIENT_GROUP
from qioi.lab.machine import waited
from qioi.lab.sampler import Sample, Window, window
from qioi.model import DEFAULT_SHARES, Role
from qioi.processes.cgroups import Group

LEDGER = (Role.PEER, Role.ORDERER, Role.CHAINCODE, Role.BROKER, Role.REPLICA)


@dataclass(frozen=True, slots=True)
class Look:
    """Noted beside each sample, at its epoch seconds: ``io`` are PSI io seconds, ``daemon`` its memory in MB."""

    time: float
    account: Account
    io: float
    daemon: float


@dataclass(slots=True)
class Traces:
    """When the neighbours came and went (epoch seconds), and one :class:`Look` per sample."""

    came: float | None = None
    gone: float | None = None
    looks: list[Look] = field(default_factory=list)
    accounting: Accounting = field(default_factory=Accounting)

    def look(self, sample: Sample, daemon: Group) -> None:
        """Take a look beside a sample that was just taken."""
        account = self.accounting.of(sample)
        self.looks.append(Look(sample.time, account, waited("io") or 0.0, memory(daemon.pids())))

    def within(self, start: float, end: float) -> list[Look]:
        """Give the looks of the window: as many as it has samples."""
        return [look for look in self.looks if start <= look.time <= end]


def memory(pids: Sequence[int]) -> float:
    """Resident memory of some processes in MB; one that has just ended has none."""
    used = 0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            used += psutil.Process(pid).memory_info().rss
    return used / 2**20


@dataclass(frozen=True, slots=True)
class CellFigures:
    """One cell of one repeat. Series are in seconds since the window began; the warm-up lies below zero.

    So are ``came`` and ``gone``, when neighbours did, of which early versions' cells have neither. ``early`` says
    whether a share was raised already when they came; earlier versions' cells do not.
    """

    key: str
    metrics: dict[str, float]
    series: dict[str, dict[str, Series]]
    unit: str
    started: float
    came: float | None = None
    gone: float | None = None
    early: bool | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was noted of one cell. ``roles`` are by component, ``profiled`` are perf's rows by component.

    ``lacking`` are metrics that say what perf's recording lacks.
    """

    cell: Cell
    found: Driven
    samples: Sequence[Sample]
    roles: Mapping[str, Role]
    neighbours: Neighbours
    flushes: Sequence[Flush]
    traces: Traces
    profiled: Mapping[str, tuple[float, float, float]]
    lacking: Mapping[str, float] = field(default_factory=dict)


def condense(evidence: Evidence) -> CellFigures:
    """Condense one cell."""
    cell, found, samples, traces = evidence.cell, evidence.found, evidence.samples, evidence.traces
    roles, neighbours = evidence.roles, evidence.neighbours
    cut = window(samples, found.start - cell.timing.warmup, found.start, found.end)
    metrics = {
        **client_metrics(found.figures),
        **scheduled(cut, roles),
        **disturbed(cut, neighbours, traces, found),
        **found.more,
        "client.cores": cut.cores((CLIENT_GROUP,)),
        "ledger.cores": cut.cores(tuple(roles)),
    }
    if (flushed := flush_figures(evidence.flushes, found.start, found.end)).count:
        metrics["flush.p95"] = flushed.p95
    if cell.load.clients is not None:
        metrics["clients"] = float(cell.load.clients)
    if found.figures.throughput > 0:
        metrics["ledger.ms_per_tx"] = 1000 * metrics["ledger.cores"] / found.figures.throughput
    metrics |= machine_wide(cut, traces.within(found.start, found.end), cell)
    raised = raised_at(samples, roles)
    metrics |= speed_of_reaction(raised, traces)
    metrics |= {**of_perf(evidence.profiled, roles, neighbours), **evidence.lacking}
    came, gone = (None if at is None else at - found.start for at in (traces.came, traces.gone))
    curves = series(cell, found, cut, roles, neighbours)
    early = None if traces.came is None else is_early(raised, traces.came)
    return CellFigures(cell.key, metrics, curves, neighbours.unit, found.start, came, gone, early)


def scheduled(cut: Window, roles: Mapping[str, Role]) -> dict[str, float]:
    """Give each role's scheduling, from schedstat; switches are a mean over its components."""
    metrics: dict[str, float] = {}
    for role in LEDGER:
        names = tuple(name for name, its in roles.items() if its is role)
        if not names:
            continue
        figures = cut.role(names)
        shares = [sample.shares[name] for sample in cut.samples for name in names]
        metrics |= {
            f"{role.value}.delay": figures.delay,
            f"{role.value}.slice": figures.time_slice,
            f"{role.value}.switches": figures.switches / len(names),
            f"{role.value}.waiting": 100 * figures.waiting,
            f"{role.value}.cores": figures.cores,
            f"{role.value}.shares": sum(shares) / len(shares),
        }
    return metrics


def disturbed(cut: Window, neighbours: Neighbours, traces: Traces, found: Driven) -> dict[str, float]:
    """Give what the neighbours got in that part of the window in which they were there."""
    if not neighbours.names or traces.came is None:
        return {}
    since, until = max(found.start, traces.came), min(found.end, traces.gone or found.end)
    work = neighbours.work(since, until)
    metrics = {"neighbours.work": work} if work is not None else {}
    there = replace(cut, samples=[sample for sample in cut.samples if since <= sample.time <= until])
    if len(there.samples) < 2:
        return metrics
    figures = there.role(neighbours.names)
    return metrics | {
        "neighbours.cores": figures.cores,
        "neighbours.delay": figures.delay,
        "neighbours.slice": figures.time_slice,
        "neighbours.switches": figures.switches / len(neighbours.names),
    }


def machine_wide(cut: Window, looks: Sequence[Look], cell: Cell) -> dict[str, float]:
    """Give how quiet the machine was, which :mod:`qioi.experiment.noise` judges, and what the daemon used."""
    first, last = looks[0], looks[-1]
    metrics = disturbance(first.account, last.account, len(os.sched_getaffinity(0)))
    metrics["pressure.io"] = 100 * (last.io - first.io) / (last.time - first.time)
    if cell.arm.protection is not None and cell.arm.protection.law and (daemon := cut.cores((DAEMON_GROUP,))):
        metrics |= {"daemon.cores": daemon, "daemon.memory": max(look.daemon for look in looks)}
    return metrics


def raised_at(samples: Sequence[Sample], roles: Mapping[str, Role]) -> list[tuple[float, bool]]:
    """Give the time of each sample, and whether a share was raised then."""
    return [
        (sample.time, any(sample.shares[name] > DEFAULT_SHARES for name in roles if name in sample.shares))
        for sample in samples
    ]


def is_early(raised: Sequence[tuple[float, bool]], came: float) -> bool:
    """Whether a share was raised at the last sample before the neighbours came."""
    before = [up for at, up in raised if at < came]
    return bool(before) and before[-1]


def speed_of_reaction(raised: Sequence[tuple[float, bool]], traces: Traces) -> dict[str, float]:
    """Give the time from the neighbours' start to the first raised share, and from their end to the last one gone.

    Both are good to one sampling period, and left out where they did not happen, or a share was raised before.
    """
    metrics: dict[str, float] = {}
    if (came := traces.came) is not None:
        first = next((at for at, up in raised if up and at >= came), None)
        if first is not None and not is_early(raised, came):
            metrics["reaction"] = first - came
    if traces.gone is not None and "reaction" in metrics and not raised[-1][1]:
        last = max(at for at, up in raised if up)
        metrics["release"] = max(0.0, last - traces.gone)
    return metrics


def of_perf(
    profiled: Mapping[str, tuple[float, float, float]], roles: Mapping[str, Role], neighbours: Neighbours
) -> dict[str, float]:
    """Put perf's figures in place of schedstat's: means over a role's components, in ms."""
    metrics: dict[str, float] = {}
    kinds = {role.value: [name for name, its in roles.items() if its is role] for role in LEDGER}
    kinds["neighbours"] = list(neighbours.names)
    for kind, names in kinds.items():
        rows = [profiled[name] for name in names if name in profiled]
        switches = sum(row[2] for row in rows)
        if switches:
            metrics[f"{kind}.slice"] = 1000 * sum(row[0] * row[2] for row in rows) / switches
            metrics[f"{kind}.delay"] = 1000 * sum(row[1] * row[2] for row in rows) / switches
            metrics[f"{kind}.switches"] = switches / len(names)
    return metrics


def series(
    cell: Cell, found: Driven, cut: Window, roles: Mapping[str, Role], neighbours: Neighbours
) -> dict[str, dict[str, Series]]:
    """Take the curves over time: quantity -> name of the curve -> points."""
    by_role = {role.value: tuple(name for name, its in roles.items() if its is role) for role in LEDGER}
    present = {role: names for role, names in by_role.items() if names}
    shown = found.start - cell.timing.warmup
    work = tuple((at - found.start, value) for at, value in neighbours.over_time() if shown <= at <= found.end)
    return {
        "throughput": {"ledger": found.throughput},
        "p95": {"ledger": found.p95},
        "shares": {role: cut.shares_over_time(names) for role, names in present.items()},
        "delay": {role: cut.delay_over_time(names) for role, names in present.items()},
        "neighbours": {"neighbours": work} if work else {},
    }
