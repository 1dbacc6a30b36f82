"""The figures that one arm of a measurement yields, and their comparison with another arm.

Times over time are seconds since the measured window began; before it lies the warm-up, below zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from qioi.lab.flush_probe import FlushFigures
from qioi.lab.machine import Quiet
from qioi.model import Role

#: (seconds since the window began, value)
Series = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """What the load client saw within the window. Latencies are in milliseconds.

    With an offered rate (transactions per second) latency counts from the intended send time.
    """

    offered: float | None
    throughput: float
    mean: float
    p50: float
    p95: float
    p99: float
    maximum: float
    committed: int
    failed: int


@dataclass(frozen=True, slots=True)
class RoleFigures:
    """The scheduling of all components of one role within the window.

    ``delay`` is the mean wait per time slice and ``time_slice`` the mean slice, in milliseconds;
    ``waiting`` the share of runnable time spent waiting (0..1); ``switches`` slices per second;
    ``cores`` the CPU time per second.
    """

    delay: float
    time_slice: float
    waiting: float
    switches: float
    cores: float


@dataclass(frozen=True, slots=True)
class InterfererFigures:
    """What the interferers got within the window: events per second in total and CPU time per second."""

    count: int
    events: float
    cores: float

    @property
    def events_per_core(self) -> float | None:
        """Events per core-second, the interferers' own speed; ``None`` if they never ran."""
        return self.events / self.cores if self.cores > 0 else None


@dataclass(frozen=True, slots=True)
class SeriesFigures:
    """The same over time: by name where there are several curves."""

    throughput: Series = ()
    p95: Series = ()
    interferer: Series = ()
    shares: tuple[tuple[str, Series], ...] = ()
    delay: tuple[tuple[str, Series], ...] = ()


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """One arm: the same load on the same ledger under one condition."""

    name: str
    title: str
    load: LoadFigures
    roles: dict[Role, RoleFigures]
    client_cores: float
    daemon_cores: float
    interferer: InterfererFigures
    flush: FlushFigures
    quiet: Quiet
    series: SeriesFigures

    @property
    def ledger_cores(self) -> float:
        """CPU time per second of all components together."""
        return sum(role.cores for role in self.roles.values())


def due(alone: ArmFigures, cores: int, events_per_core: float) -> float:
    """Events per second that the interferers are owed: what ledger and client leave free when alone."""
    return max(0.0, cores - alone.ledger_cores - alone.client_cores) * events_per_core


@dataclass(frozen=True, slots=True)
class Ratios:
    """An arm against the arm "alone" of the same run; ``interferer_due`` is the part of its due it got."""

    throughput: float
    p50: float
    p95: float
    p99: float
    delay: dict[Role, float]
    interferer_due: float | None


def ratios(arm: ArmFigures, alone: ArmFigures, cores: int) -> Ratios:
    """Compare within one run."""
    speed = arm.interferer.events_per_core
    owed = due(alone, cores, speed) if speed is not None else 0.0
    return Ratios(
        throughput=quotient(arm.load.throughput, alone.load.throughput),
        p50=quotient(arm.load.p50, alone.load.p50),
        p95=quotient(arm.load.p95, alone.load.p95),
        p99=quotient(arm.load.p99, alone.load.p99),
        delay={
            role: quotient(figures.delay, alone.roles[role].delay)
            for role, figures in arm.roles.items()
            if role in alone.roles
        },
        interferer_due=arm.interferer.events / owed if owed > 0 else None,
    )


def quotient(value: float, base: float) -> float:
    """Divide; nothing by nothing is one, something by nothing infinite."""
    if base == 0:
        return 1.0 if value == 0 else float("inf")
    return value / base
