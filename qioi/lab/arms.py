"""Arms of a measurement: the same load on the same lab, alone, beside interferers, with QiOi.

The daemon starts first, then the load. The interferers start during the load's warm-up, as neighbours come to a ledger
that runs. The load's window is what is measured; daemon and interferers outlive its end.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from qioi.interference import Report, Sysbench, rates, total_over_time
from qioi.lab.daemon import DAEMON_GROUP, Daemon
from qioi.lab.figures import ArmFigures, InterfererFigures, Series, SeriesFigures
from qioi.lab.flush_probe import Flush, FlushProbe, flush_figures
from qioi.lab.lab import CLIENT_GROUP, Lab
from qioi.lab.load import LoadPlan, LoadResult, LoadRun, read_result
from qioi.lab.machine import machine
from qioi.lab.network import Network
from qioi.lab.sampler import PERIOD, Sampler, Window, window, write_samples
from qioi.model import Role
from qioi.processes.errors import BusyError

#: Called a few times a second with the seconds since the arm began.
Tick = Callable[[float], None]

#: Clients that find the maximum where none of them waits for a block.
FEW = 64
#: The load that finds the ledger's maximum; times in seconds.
PROBE = LoadPlan(duration=8, warmup=3, clients=FEW)
#: Transactions in a block unless said otherwise, as Fabric cuts them.
BLOCK = 500
#: In block mode every client waits for its block: so many that three blocks are under way.
BLOCK_PROBE = replace(PROBE, clients=3 * BLOCK)
PROBE_SECONDS = PROBE.warmup + PROBE.duration + 1


def probe_plan(network: Network) -> LoadPlan:
    """Choose the load that finds a network's maximum."""
    return BLOCK_PROBE if network.mode == "block" else PROBE


@dataclass(frozen=True, slots=True)
class Arm:
    """One condition. ``config`` is the daemon's configuration as YAML text; without it there is none.

    ``may_stall``: a window without a commit is a result, whose latencies mean nothing; otherwise it is an error.
    """

    name: str
    title: str
    load: LoadPlan
    sysbench: int = 0
    config: str | None = None
    may_stall: bool = False

    @property
    def arrival(self) -> float:
        """The time of the interferers' start, in seconds since the load began to send."""
        return min(3.0, 0.3 * self.load.warmup)

    @property
    def seconds(self) -> float:
        """About how long it takes, with starting and draining."""
        return self.load.warmup + self.load.duration + self.load.cooldown + 1.5


class Runner:
    """Runs arms on a lab that is up, and leaves each one's raw data in a folder of its own."""

    def __init__(self, lab: Lab, network: Network, directory: Path) -> None:
        self._lab = lab
        self._directory = directory
        self._roles = {node.name: node.role for node in network.nodes}
        self._probe = probe_plan(network)
        self.cores = machine().cores

    def maximum(self, tick: Tick = lambda _seconds: None) -> float:
        """Find what the ledger commits per second at most, roughly: many closed-loop clients for a few seconds."""
        directory = self._directory / "probe"
        directory.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with LoadRun(self._lab, self._probe, directory) as load:
            while load.running():
                self._lab.check()
                tick(time.monotonic() - began)
                time.sleep(0.2)
            return load.result().figures.throughput

    def run(self, arm: Arm, tick: Tick = lambda _seconds: None) -> ArmFigures:
        """Run one arm from start to end; what it started is gone afterwards, also after an error.

        BusyError: the machine was too busy for it, or its interferers came after the window.
        """
        directory = self._directory / arm.name
        directory.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            sysbench = Sysbench(self._lab.tree, arm.sysbench, directory)
            stack.callback(sysbench.stop)
            sysbench.prepare()
            daemon = None
            if arm.config is not None:
                daemon = stack.enter_context(Daemon(self._lab, arm.config, directory))
                daemon.settle()
            load = stack.enter_context(LoadRun(self._lab, arm.load, directory))
            sampler = self._sampler(sysbench)
            stack.callback(sampler.close)
            probe = stack.enter_context(FlushProbe(self._lab.directory))
            came = self._watch(load, sampler, sysbench, daemon, arm.arrival, tick)
            result = read_result(load, directory / "load.json") if arm.may_stall else load.result()
        if arm.sysbench and (came is None or came >= result.end):
            raise BusyError(f"{arm.name}: the window ended before the neighbours came, {arm.arrival:g} s into the load")
        write_samples(directory / "samples.csv", sampler.samples, self._roles)
        cut = window(sampler.samples, result.start - arm.load.warmup, result.start, result.end)
        evidence = Evidence(arm, self._roles, result, cut, sysbench.names, sysbench.reports(), probe.flushes, came)
        figures = condense(evidence, self.cores)
        (directory / "arm.json").write_text(json.dumps(asdict(figures), indent=2) + "\n", encoding="utf-8")
        return figures

    def _sampler(self, sysbench: Sysbench) -> Sampler:
        components = {name: self._lab.tree.group(name) for name in self._roles}
        others = {name: self._lab.tree.group(name) for name in (CLIENT_GROUP, DAEMON_GROUP, *sysbench.names)}
        return Sampler(components, others)

    def _watch(
        self,
        load: LoadRun,
        sampler: Sampler,
        sysbench: Sysbench,
        daemon: Daemon | None,
        arrival: float,
        tick: Tick,
    ) -> float | None:
        """Look after an arm until its load ends. Give when the interferers were started (epoch s), if they were."""
        began = due = time.monotonic()
        came = None
        while load.running():
            sending_since = load.began() if came is None else None
            until_arrival = math.inf if sending_since is None else sending_since + arrival - time.time()
            if until_arrival <= 0:
                came, until_arrival = time.time(), math.inf
                sysbench.start()
            if time.monotonic() >= due:
                sampler.sample()
                self._lab.check()
                sysbench.check()
                if daemon is not None:
                    daemon.check()
                tick(time.monotonic() - began)
                due = max(due + PERIOD, time.monotonic())
                continue  # a sample takes time, in which the arrival comes nearer
            time.sleep(max(0.0, min(due - time.monotonic(), until_arrival)))
        return came


@dataclass(frozen=True, slots=True)
class Evidence:
    """An arm's raw data. ``roles`` are by component, ``interferers`` are names, both as in the samples of ``cut``.

    ``came`` is when the interferers were started (epoch seconds); ``None``: before anything else.
    """

    arm: Arm
    roles: Mapping[str, Role]
    load: LoadResult
    cut: Window
    interferers: Sequence[str]
    reports: list[Report]
    flushes: Sequence[Flush]
    came: float | None = None


def condense(evidence: Evidence, cores: int) -> ArmFigures:
    """Make an arm's figures of its raw data, on a machine of so many cores."""
    arm, roles, load, cut = evidence.arm, evidence.roles, evidence.load, evidence.cut
    reports = evidence.reports
    # An instance that was too starved to report counts as having done nothing.
    events = rates(reports, load.start, load.end)
    # Rates are means over the reports, so over the stay. CPU time is of the whole window, and so is the work.
    came = load.start if evidence.came is None else max(load.start, evidence.came)
    stay = max(0.0, load.end - came) / (load.end - load.start)
    shown_from = load.start - arm.load.warmup
    interferer = [(at - load.start, value) for at, value in total_over_time(reports) if shown_from <= at <= load.end]
    members = {role: tuple(name for name, its in roles.items() if its == role) for role in Role}
    present = {role: names for role, names in members.items() if names}

    def by_role(series: Callable[[tuple[str, ...]], Series]) -> tuple[tuple[str, Series], ...]:
        return tuple((role.value, series(names)) for role, names in present.items())

    return ArmFigures(
        name=arm.name,
        title=arm.title,
        load=load.figures,
        roles={role: cut.role(names) for role, names in present.items()},
        client_cores=cut.cores((CLIENT_GROUP,)),
        daemon_cores=cut.cores((DAEMON_GROUP,)) if arm.config is not None else 0.0,
        interferer=InterfererFigures(arm.sysbench, stay * sum(events.values()), cut.cores(evidence.interferers)),
        flush=flush_figures(evidence.flushes, load.start, load.end),
        quiet=cut.quiet(cores),
        series=SeriesFigures(
            throughput=load.throughput,
            p95=load.p95,
            interferer=tuple(interferer),
            shares=by_role(cut.shares_over_time),
            delay=by_role(cut.delay_over_time),
        ),
    )
