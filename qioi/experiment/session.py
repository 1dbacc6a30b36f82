"""A run from start to end: bring labs up, find maxima, measure the repeats one after the other, take labs down."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from qioi.experiment.calibration import calibrate
from qioi.experiment.condense import CellFigures
from qioi.experiment.host import describe, with_fabric
from qioi.experiment.kinds import require
from qioi.experiment.measure import Measurement, Offer
from qioi.experiment.noise import Accounting, complaints, disturbance
from qioi.experiment.orderers_on_disk import NAME as ORDERERS_ON_DISK
from qioi.experiment.orderers_on_disk import orderers_on_disk
from qioi.experiment.places import DISK, MEMORY, media, own_folder, standing
from qioi.experiment.plan import EDGE_SECONDS, Cell, Plan, up_seconds
from qioi.experiment.replicas import measure_replicas
from qioi.experiment.run_files import Repeat
from qioi.experiment.store import Store, wanting
from qioi.experiment.system import BENCHED, DATABASES, WORKLOADS, NetworkSpec
from qioi.lab.arms import BLOCK, FEW, PROBE, PROBE_SECONDS
from qioi.lab.caliper_files import find_configs
from qioi.lab.daemon import refuse_beside_another
from qioi.lab.demo import clear_others
from qioi.lab.engine import LabEngine, engine_socket
from qioi.lab.lab import CLIENT_GROUP, Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.network import Network, find_binary
from qioi.lab.npm import find_node, install
from qioi.lab.options import LabOptions
from qioi.lab.sampler import Sampler
from qioi.lab.signals import uninterrupted
from qioi.lab.site import Say, silent
from qioi.lab.systems import SYSTEMS
from qioi.monitor.profile.perf import ProfileError, perf_binary
from qioi.processes.errors import BusyError, LabError

#: (what is being done, seconds done, seconds in all)
Progress = Callable[[str, float, float], None]
#: Repeats that may be lost in one run to a busy machine, even if fewer were asked for.
LOSSES = 5
#: What a write fails with where a disk, or a user's part of it, is full.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: The maximum that a smoke run assumes, in tps.
SMOKE_MAXIMUM = 60.0


def check_host(plans: Iterable[Plan], say: Say = silent) -> None:
    """Raise if this host lacks what any cell needs, with every command that installs something, or has a daemon.

    Caliper is installed if it is needed, and nothing else is missing.
    """
    problems: dict[str, None] = {}
    cells = [cell for plan in plans for cell in plan.cells]
    for cell in cells:
        try:
            require(cell.arm.neighbours)
            # The host's own daemon may find containers, and raise them in the arms without protection too.
            if cell.arm.protection is not None or cell.network.runtime == "docker":
                refuse_beside_another()
            if cell.network.runtime == "docker":
                LabEngine(engine_socket()).close()
            if cell.load.driver == "caliper":
                find_node()
            if cell.network.system in BENCHED:
                find_binary()
                continue
            SYSTEMS[cell.network.system](Path(), lab_options(cell.network, 1)).install(silent)
            if cell.timing.profile:
                perf_binary()
        except (LabError, ProfileError) as error:
            problems[str(error)] = None
    if problems:
        raise LabError("\n".join(problems))
    if any(cell.load.driver == "caliper" for cell in cells):
        install(find_configs(), say=say)


class Session:
    """Runs a plan into a store. The host is clean whenever :meth:`run` returns or raises."""

    def __init__(self, plan: Plan, store: Store, directory: Path, base_port: int, progress: Progress) -> None:
        self._plan, self._store, self._directory, self._base_port = plan, store, directory, base_port
        self._progress = progress
        self._done = 0.0
        self._lost = 0
        self._total = plan.probe_seconds + plan.repeats * plan.repeat_seconds

    def run(self, *, resume: bool = False) -> list[Repeat]:
        """Measure until there are enough quiet repeats, or twice as many repeats in all as were asked for."""
        open_run = self._store.resume if resume else self._store.begin
        networks = self._plan.spec.networks
        where, host = media(networks, self._directory), with_fabric(describe(self._plan.seed), networks)
        open_run(self._plan, where, host, own_folder(self._directory))
        maxima = self._maxima()
        finished = self._store.repeats()
        while missing := wanting(self._plan, finished):
            self._done = self._plan.probe_seconds + len(finished) * self._plan.repeat_seconds
            self._total = self._done + missing * self._plan.repeat_seconds
            number = max((repeat.number for repeat in finished), default=0) + 1
            try:
                finished.append(self._repeat(number, finished, maxima))
            except BusyError as error:
                self._lose(error)
        return finished

    def _lose(self, error: BusyError) -> None:
        """Note a repeat that could not be measured; with as many as were asked for, or :data:`LOSSES`, the run ends.

        Those that were lost before it was resumed do not count, since the machine may be quieter now.
        """
        self._store.keep("lost", [*self._store.document.lost, str(error)])
        self._lost += 1
        if self._lost >= max(self._plan.repeats, LOSSES):
            raise error

    @contextlib.contextmanager
    def _lab(self, spec: NetworkSpec, logs: Path) -> Iterator[tuple[Lab, Network]]:
        """Bring a network of that kind up, and take it down with its logs kept."""
        directory = standing(self._directory, spec.store)
        clear_others(directory, (MEMORY, DISK))
        lab = Lab(directory)
        with orderers_on_disk() if spec.store == "orderers" else contextlib.nullcontext():
            network = lab.up(lab_options(spec, self._base_port), die_with_parent=True)
            try:
                self._done += up_seconds(spec)
                yield lab, network
            finally:
                with uninterrupted():
                    try:
                        lab.keep_logs(logs)
                    finally:
                        lab.down()

    def _maxima(self) -> dict[str, float]:
        """Find the maximum of each network that needs one, once for the whole run; a smoke run assumes it."""
        if self._plan.smoke:
            return dict.fromkeys(self._plan.spec.networks, SMOKE_MAXIMUM)
        maxima = dict(self._store.document.maxima)
        for name in self._plan.probed:
            spec = self._plan.spec.networks[name]
            if name in maxima:
                self._done += PROBE_SECONDS + up_seconds(spec)
                continue
            self._step(f"looking for the maximum of {spec.title or name}", 0)
            folder = self._store.directory / "probe" / name
            folder.mkdir(parents=True, exist_ok=True)
            with self._lab(spec, folder / "logs") as (lab, network), LoadRun(lab, probe_of(spec), folder) as run:
                groups = (*(node.name for node in network.nodes), CLIENT_GROUP)
                with contextlib.closing(Sampler({}, {group: lab.tree.group(group) for group in groups})) as sampler:
                    sampler.sample()
                    before = (accounting := Accounting()).of(sampler.samples[-1])
                    maxima[name] = run.wait(sampler.sample).figures.throughput
                    sampler.sample()
                    after = accounting.of(sampler.samples[-1])
            if maxima[name] <= 0:
                raise LabError(f"network {name} committed nothing in the probe: no load can be derived from it")
            self._done += PROBE_SECONDS
            noise = complaints(disturbance(before, after, self._plan.cores))
            # First: a network whose maximum is known is not looked at again.
            self._store.keep("probe_noise", {**self._store.document.probe_noise, name: noise})
            self._store.keep("maxima", maxima)
        return maxima

    def _repeat(self, number: int, finished: Sequence[Repeat], maxima: dict[str, float]) -> Repeat:
        """Measure every cell once, after the repeats that are finished."""
        label = repeat_label(number, finished, self._plan.repeats)
        figures: dict[str, CellFigures] = {}
        folder = self._store.fresh(number)
        try:
            calibration = None if self._plan.smoke else calibrate(folder)
            for cells in self._plan.order(backward=is_backward(self._plan, finished)):
                if cells[0].network.system in BENCHED:
                    figures |= {cell.key: self._bench(number, label, cell) for cell in cells}
                    continue
                self._step(f"{label}: bringing {cells[0].network.title or cells[0].network_name} up", 0)
                with self._lab(cells[0].network, folder / f"logs-{cells[0].network_name}") as (lab, _):
                    for cell in cells:
                        figures[cell.key] = self._cell(number, label, cell, lab, maxima)
            return self._store.finish(number, figures, judged=not self._plan.smoke, calibration=calibration)
        except (KeyboardInterrupt, OSError) as error:
            # Any other failure's logs are kept. An interruption needs none, and a full disk needs the room.
            if isinstance(error, KeyboardInterrupt) or error.errno in FULL:
                with uninterrupted():
                    shutil.rmtree(folder, ignore_errors=True)
            raise

    def _bench(self, number: int, label: str, cell: Cell) -> CellFigures:
        self._step(f"{label}: {title(cell, self._plan.cells)}", 0)
        seed = self._plan.load_seed(number, cell)
        figures = measure_replicas(cell, seed, self._store.folder(number, cell.key), smoke=self._plan.smoke)
        self._done += cell.seconds
        return figures

    def _cell(self, number: int, label: str, cell: Cell, lab: Lab, maxima: dict[str, float]) -> CellFigures:
        label = f"{label}: {title(cell, self._plan.cells)}"
        directory = self._store.folder(number, cell.key)
        offer = self._offer(number, cell, maxima)
        measurement = Measurement(lab, cell, offer, directory)
        figures = measurement.run(lambda seconds: self._step(label, min(seconds, cell.seconds)))
        (directory / "seed.json").write_text(
            json.dumps({"seed": offer.seed, "offered": offer.rates}) + "\n", encoding="utf-8"
        )
        self._done += cell.seconds
        return figures

    def _offer(self, number: int, cell: Cell, maxima: dict[str, float]) -> Offer:
        maximum, seed = maxima.get(self._plan.probed_for(cell)), self._plan.load_seed(number, cell)
        load = cell.load
        if load.tenants:
            rates = {channel: round((maximum or 0) * tenant.part, 1) for channel, tenant in load.tenants.items()}
            return Offer(rates, maximum, seed)
        if load.part is not None:
            return Offer({"": round((maximum or 0) * load.part, 1)}, maximum, seed)
        return Offer({"": load.rate} if load.rate is not None else {}, maximum, seed)

    def _step(self, label: str, seconds: float) -> None:
        self._progress(label, min(self._done + seconds, self._total - EDGE_SECONDS), self._total)


def probe_of(spec: NetworkSpec) -> LoadPlan:
    """Plan the search for a network's maximum, by the first of its contracts that the load client drives."""
    contracts = (name.split("=", 1)[0] for name in spec.chaincodes)
    contract = next(name for name in contracts if name in WORKLOADS)  # loads that need it have seen to one
    if spec.system in DATABASES:
        return replace(PROBE, extra=("--chaincode", contract, *(("--workload", "insert") if contract == "kv" else ())))
    # With fewer clients than a block has transactions, a block waits for its timer.
    clients = FEW + (2 * (spec.messages or BLOCK) if spec.mode == "block" else 0)
    return replace(PROBE, clients=clients, extra=("--chaincode", contract))


def is_backward(plan: Plan, finished: Sequence[Repeat]) -> bool:
    """Say in which order the next repeat's cells run: in that of fewer quiet repeats, and else not in the last one's.

    Drift (a warming machine, a growing ledger) then meets "with" and "without" alike, whichever repeats come to count.
    """
    ran = [(plan.is_forward(repeat.cells), repeat.quiet) for repeat in finished]
    ahead = sum(1 if forward else -1 for forward, quiet in ran if quiet)
    return ahead > 0 if ahead else bool(ran) and ran[-1][0]


def repeat_label(number: int, finished: Sequence[Repeat], wanted: int) -> str:
    """Call a repeat by its number of those wanted; by the quiet ones so far where a noisy one is measured again."""
    quiet = sum(repeat.quiet for repeat in finished)
    if quiet == len(finished):
        return f"repeat {number} of {wanted}"
    return f"repeat {number}, of {wanted} quiet ones there are {quiet}"


def title(cell: Cell, cells: Sequence[Cell]) -> str:
    """Name a cell for people by what differs between these cells; of replicas, also whether they are real."""
    parts = [cell.arm.title] if len({one.arm.name for one in cells}) > 1 else []
    if len({one.load_name for one in cells}) > 1:
        parts.insert(0, cell.load.title or cell.load_name)
    if len({one.network_name for one in cells}) > 1 or cell.network.system in BENCHED:
        parts.insert(0, cell.network.title or cell.network_name)
    return ", ".join(parts) or cell.arm.title


def lab_options(spec: NetworkSpec, base_port: int) -> LabOptions:
    """Format a network for the lab."""
    flags = {
        "--max-message-count": spec.messages,
        "--batch-timeout": f"{spec.timeout:g}s" if spec.timeout is not None else None,
        "--verify-workers": spec.workers,
        "--processors": spec.workers,
    }
    extra = [text for flag, value in flags.items() if value is not None for text in (flag, str(value))]
    extra += [text for chaincode in spec.chaincodes for text in ("--chaincode", spec.policy(chaincode))]
    return LabOptions(
        orgs=spec.orgs,
        peers_per_org=spec.peers_per_org,
        orderers=spec.orderers,
        mode=spec.mode,
        consenter=spec.consenter,
        base_port=base_port,
        channels=tuple(spec.channels),
        sequencer_memory=spec.sequencer_memory,
        like_fabric=spec.like_fabric,
        extra=tuple(extra),
        runtime=spec.runtime,
        system=ORDERERS_ON_DISK if spec.store == "orderers" else spec.system,
        binaries=Path(spec.binaries) if spec.binaries is not None else None,
        nodes=spec.nodes,
    )
