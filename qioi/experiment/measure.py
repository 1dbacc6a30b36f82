"""Measures one cell: the protection starts first, then the load, then, during its warm-up, the neighbours."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from qioi.experiment.caliper_driver import Caliper
from qioi.experiment.condense import CellFigures, Evidence, Traces, condense
from qioi.experiment.drivers import Bundled, Drive, Driven, Driver, Tenants
from qioi.experiment.kinds import make_neighbours
from qioi.experiment.neighbours import Neighbours, cap
from qioi.experiment.orderers_on_disk import flushed
from qioi.experiment.pin import Pin
from qioi.experiment.places import scratch_of
from qioi.experiment.plan import Cell
from qioi.experiment.profiling import Profiler
from qioi.experiment.spec import NeighbourSpec, ProtectionSpec
from qioi.kernel.files import is_gone
from qioi.lab.daemon import DAEMON_GROUP, Daemon, daemon_config
from qioi.lab.demo import default_threshold
from qioi.lab.flush_probe import FlushProbe
from qioi.lab.lab import CLIENT_GROUP, Lab
from qioi.lab.readiness import follower
from qioi.lab.sampler import Sampler, write_samples
from qioi.processes.cgroups import Group
from qioi.processes.errors import BusyError

Tick = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Offer:
    """A cell's load on this host: tps of each channel (one, or one per tenant), the maximum, and its choices' seed."""

    rates: dict[str, float]
    maximum: float | None
    seed: int

    @property
    def rate(self) -> float | None:
        """The sum over all channels in tps; ``None`` in a closed loop."""
        return sum(self.rates.values()) or None


@dataclass(frozen=True, slots=True)
class Parts:
    """What takes part in a cell while its load runs. Only some arms have a ``pin`` or a ``daemon``."""

    driver: Driver
    sampler: Sampler
    neighbours: Neighbours
    pin: Pin | None
    daemon: Daemon | None
    profiler: Profiler


class Measurement:
    """Measures one cell on a lab that is up; nothing that it started outlives :meth:`run`."""

    def __init__(self, lab: Lab, cell: Cell, offer: Offer, directory: Path) -> None:
        self._lab, self._cell, self._offer, self._directory = lab, cell, offer, directory
        self._network = lab.network()
        self._roles = {node.name: node.role for node in self._network.nodes}
        self._traces = Traces()

    def run(self, tick: Tick) -> CellFigures:
        """Measure, and write the cell's folder."""
        self._directory.mkdir(parents=True, exist_ok=True)
        timing, spec = self._cell.timing, self._cell.arm.neighbours
        with contextlib.ExitStack() as stack:
            ledgers = flushed(self._lab.directory, self._cell.network.store)
            scratch = scratch_of(ledgers, self._directory)
            neighbours = make_neighbours(spec, self._lab.tree, self._directory, scratch)
            stack.callback(neighbours.stop)
            neighbours.prepare()
            if spec.quota is not None:
                cap(spec.quota, neighbours)
            pin = self._pin(stack, spec, neighbours)
            daemon = self._protect(stack)
            driver = self._drive(stack)
            sampler = self._sampler(neighbours)
            stack.callback(sampler.close)
            probe = stack.enter_context(FlushProbe(ledgers))
            profiler = stack.enter_context(Profiler(self._groups(neighbours), timing.profile))
            self._watch(Parts(driver, sampler, neighbours, pin, daemon, profiler), tick)
            found = driver.result()
        write_samples(self._directory / "samples.csv", sampler.samples, self._roles)
        if neighbours.names and not were_there(self._traces, found):
            raise BusyError("the load ended before the neighbours came: the machine is too busy with other work")
        figures = condense(
            Evidence(
                cell=self._cell,
                found=found,
                samples=sampler.samples,
                roles=self._roles,
                neighbours=neighbours,
                flushes=probe.flushes,
                traces=self._traces,
                profiled=profiler.rows(),
                lacking=profiler.lacks(),
            )
        )
        (self._directory / "cell.json").write_text(json.dumps(asdict(figures), indent=1) + "\n", encoding="utf-8")
        return figures

    def _pin(self, stack: contextlib.ExitStack, spec: NeighbourSpec, neighbours: Neighbours) -> Pin | None:
        if spec.beside is None:
            return None
        pin = Pin([self._lab.tree.group(follower(self._network)), *neighbours.groups], max(os.sched_getaffinity(0)))
        stack.callback(pin.release)
        return pin

    def _protect(self, stack: contextlib.ExitStack) -> Daemon | None:
        protection = self._cell.arm.protection
        if protection is None:
            return None
        if protection.shares is not None:
            for name in self._roles:
                set_by_hand(stack, self._lab.tree.group(name), protection.shares)
            return None
        daemon = stack.enter_context(Daemon(self._lab, self._config(protection), self._directory))
        daemon.settle()
        return daemon

    def _config(self, protection: ProtectionSpec) -> str:
        law = protection.law or "adaptive"
        offered, maximum = self._offer.rate, self._offer.maximum
        if offered is not None and maximum is not None:
            # No channel is owed more than the ledger's maximum.
            offered = min(offered, maximum)
        owed = {"offered": offered or maximum, "maximum": maximum}.get(str(protection.threshold))
        if isinstance(protection.threshold, float):
            owed = protection.threshold
        threshold = owed or default_threshold(law, offered or maximum or 1.0, maximum)
        document = yaml.safe_load(daemon_config(self._lab, self._network, law=law, threshold=threshold))
        for channel, tenant in self._cell.load.tenants.items():
            document["channels"][channel]["threshold"] = tenant.threshold * (maximum or 1.0)
        document["period"] = protection.period
        if protection.k is not None:
            document["defaults"]["k"] = protection.k
        return yaml.safe_dump(laid_over(document, protection.daemon), sort_keys=False)

    def _drive(self, stack: contextlib.ExitStack) -> Driver:
        load = self._cell.load
        drive = Drive(self._lab, load, self._cell.timing, self._offer.seed, self._directory)
        if load.driver == "caliper":
            return Caliper(stack, drive)
        if load.tenants:
            return Tenants(stack, drive, self._offer.rates)
        return Bundled(stack, drive, self._offer.rate)

    def _groups(self, neighbours: Neighbours) -> dict[str, list[Path]]:
        lab = {name: self._lab.tree.group(name) for name in self._roles}
        return {
            name: list(group.directories)
            for name, group in (*lab.items(), *zip(neighbours.names, neighbours.groups, strict=True))
        }

    def _sampler(self, neighbours: Neighbours) -> Sampler:
        groups = {name: self._lab.tree.group(name) for name in self._roles}
        groups |= dict(zip(neighbours.names, neighbours.groups, strict=True))
        return Sampler(groups, {name: self._lab.tree.group(name) for name in (CLIENT_GROUP, DAEMON_GROUP)})

    def _watch(self, parts: Parts, tick: Tick) -> None:
        timing = self._cell.timing
        began = due = time.monotonic()
        while parts.driver.running():
            seconds = time.monotonic() - began
            since = self._since_window(parts.driver)
            self._come_and_go(parts.neighbours, since)
            if parts.pin is not None and self._traces.came is not None:
                parts.pin.hold()
            parts.sampler.sample()
            self._traces.look(parts.sampler.samples[-1], self._lab.tree.group(DAEMON_GROUP))
            self._lab.check()
            if self._traces.gone is None:
                parts.neighbours.check()
            if parts.daemon is not None:
                parts.daemon.check()
            parts.profiler.tick(since, timing.duration)
            tick(seconds)
            due = max(due + timing.sample, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def _come_and_go(self, neighbours: Neighbours, since: float) -> None:
        """Start the neighbours, and later end them, when it is time: ``since`` s after the window's beginning."""
        timing, spec, traces = self._cell.timing, self._cell.arm.neighbours, self._traces
        come = spec.come if spec.come is not None else timing.arrival - timing.warmup
        if traces.came is None and since >= come and neighbours.names:
            traces.came = time.time()
            neighbours.start()
        if traces.came is not None and traces.gone is None and spec.go is not None and since >= spec.go:
            for group in neighbours.groups:
                group.signal(signal.SIGKILL)
            traces.gone = time.time()

    def _since_window(self, driver: Driver) -> float:
        """Give the seconds since the window began; less than any while the driver only prepares."""
        begun = driver.began()
        return float("-inf") if begun is None else time.time() - begun - self._cell.timing.warmup


def were_there(traces: Traces, found: Driven) -> bool:
    """Whether neighbours came before the window ended."""
    return traces.came is not None and traces.came < found.end


def laid_over(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Lay a configuration over another one, at every depth: what it does not name stays, as a channel's T."""
    found = dict(base)
    for key, value in over.items():
        before = found.get(key)
        found[key] = laid_over(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def set_by_hand(stack: contextlib.ExitStack, group: Group, shares: int) -> None:
    """Set a group's shares until the stack is left. Where the group is gone by then, what ended it is the error."""

    def put_back(before: int) -> None:
        try:
            group.set_shares(before)
        except OSError as error:
            if not is_gone(error):
                raise

    stack.callback(put_back, group.shares())
    group.set_shares(shares)
