"""The demo: one ledger, one load, three conditions, one page; everything is measured at that time."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from qioi.interference import sysbench_binary
from qioi.kernel.errors import CgroupError
from qioi.lab.arms import PROBE_SECONDS, Arm, Runner, Tick
from qioi.lab.daemon import daemon_config, refuse_beside_another
from qioi.lab.figures import ArmFigures
from qioi.lab.flush_probe import file_system
from qioi.lab.folder import is_marked, is_ours
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan
from qioi.lab.machine import Machine, machine
from qioi.lab.options import LabOptions
from qioi.lab.report import Page, markdown, write_report
from qioi.lab.signals import uninterrupted
from qioi.processes.errors import LabError

log = logging.getLogger("qioi")

#: The load, as a part of what the lab can do at most: busy, but not saturated.
LOAD_PART = 0.6
#: Fabric's default, 500 transactions or 2 s a block, which QiOi meets most often.
MODE = "block"
#: Times in seconds. Together with start and stop under four minutes.
WARMUP = 15.0
DURATION = 40.0
#: Folders of the demo's lab. It is always one of these, and the next demo removes what a killed one has left in either.
#: It is in memory where there is room, since the demo is about CPU (see qioi.lab.flush_probe).
DISK_DIRECTORY = Path("/var/lib/qioi-demo")
MEMORY_DIRECTORY = Path("/dev/shm/qioi-demo")
MODES = {"stream": "stream mode, each transaction on its own", "block": "block mode, 500 transactions or 2 s a block"}
CONTAINERS = (
    "one container per node, sysbench and load client, the daemon's group beside theirs; "
    "share 1024, the load client 65,536 in every arm"
)
#: Bytes that the ledgers of a demo may need: some 100,000 transactions of 4 kB, kept by ten stores.
ROOM = 4 << 30
#: Seconds that bringing the lab up and taking it down takes; only the progress bar needs it.
UP_SECONDS = 6.0


def demo_directory(memory: Path = MEMORY_DIRECTORY, disk: Path = DISK_DIRECTORY, room: int = ROOM) -> Path:
    """Choose the folder of the demo's lab: in memory if it exists there or has room there, else on the disk.

    Everybody may make a folder in memory, so somebody else's is left alone, with a warning.
    """
    if is_ours(memory):
        return memory
    if is_others(memory):
        log.warning("%s is not this user's own folder: the ledgers stand on the disk, in %s", memory, disk)
        return disk
    if memory.parent.is_dir() and file_system(memory.parent) == "tmpfs":
        kept = os.statvfs(memory.parent)
        # The file system tells how much it may hold, which is no memory yet.
        if min(kept.f_bavail * kept.f_frsize, psutil.virtual_memory().available) >= room:
            return memory
    return disk


def is_others(folder: Path) -> bool:
    """Whether something is in a folder's place that is not this user's own."""
    return os.path.lexists(folder) and not is_ours(folder)


def clear_others(directory: Path, usual: Collection[Path]) -> None:
    """Remove what a killed run has left in another one of the ``usual`` folders than ``directory``, one of them too.

    The room that there is decides which of them is taken. A lab that runs stays, and so does a folder of somebody else.
    """
    if directory in usual:
        for other in usual:
            if other != directory and is_ours(other) and is_marked(other):
                clear(other)


def clear(directory: Path) -> None:
    """Remove what a killed run has left of a lab, or warn that it stays: the folder is not the one of today's run."""
    try:
        lab = Lab(directory)
        lab.down(provided=lambda: not lab.running)
    except (LabError, CgroupError, OSError) as error:
        log.warning("%s: what a killed run has left there stays: %s", directory, error)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What a user may choose. ``rate`` in transactions per second; ``None`` finds it."""

    sysbench: int = 8
    law: str = "adaptive"
    rate: float | None = None
    threshold: float | None = None
    duration: float = DURATION
    warmup: float = WARMUP
    lab: LabOptions = field(default_factory=lambda: LabOptions(mode=MODE))
    directory: Path = field(default_factory=lambda: demo_directory())


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What was measured. ``maximum`` is the lab's own in transactions per second, if it was looked for."""

    options: DemoOptions
    rate: float
    maximum: float | None
    threshold: float
    config: str
    machine: Machine
    arms: tuple[ArmFigures, ...]
    files: str


#: (what is being done, seconds done, seconds in all)
Progress = Callable[[str, float, float], None]


class Measures(Protocol):
    """Where arms are run: a lab, or a cluster."""

    def maximum(self, tick: Tick = ...) -> float:
        """Find what the ledger commits per second at most."""

    def run(self, arm: Arm, tick: Tick = ...) -> ArmFigures:
        """Run one arm from start to end."""


class Demo:
    """Runs the three arms on a lab of its own and leaves nothing but the results behind."""

    def __init__(self, options: DemoOptions, directory: Path, progress: Progress) -> None:
        self._options = options
        self._directory = directory
        self._progress = progress
        self._done = 0.0
        probe = PROBE_SECONDS if options.rate is None else 0.0
        self._total = UP_SECONDS + probe + 3 * (options.warmup + options.duration + 2)

    def run(self) -> DemoResult:
        """Measure. The lab is down when this returns or raises."""
        sysbench_binary()
        refuse_beside_another()
        host = machine()
        self._step("bringing the ledger up", 0)
        clear_others(self._options.directory, (MEMORY_DIRECTORY, DISK_DIRECTORY))
        lab = Lab(self._options.directory)
        network = lab.up(self._options.lab, die_with_parent=True)
        try:
            self._done += UP_SECONDS
            runner = Runner(lab, network, self._directory)
            law = self._options.law
            return self._measure(
                runner, lambda threshold: daemon_config(lab, network, law=law, threshold=threshold), host
            )
        finally:
            with uninterrupted():
                try:
                    lab.keep_logs(self._directory / "logs")
                finally:
                    lab.down()

    def _measure(self, runner: Measures, configure: Callable[[float], str], host: Machine) -> DemoResult:
        """Run the probe and the arms; ``configure`` spells what the daemon is told, given a threshold in tps."""
        options = self._options
        maximum = self._probe(runner) if options.rate is None else None
        rate = options.rate if options.rate is not None else round(LOAD_PART * (maximum or 0.0), -1)
        if rate <= 0:
            raise LabError("the ledger committed next to nothing in the probe: no load can be derived from it")
        alone = self._arm(runner, Arm("alone", "alone", self._load(rate, 1)))
        together = self._arm(
            runner, Arm("together", f"{options.sysbench} sysbench", self._load(rate, 2), options.sysbench)
        )
        threshold = options.threshold or default_threshold(options.law, alone.load.throughput, maximum)
        config = configure(threshold)
        protected = self._arm(
            runner,
            Arm("protected", f"{options.sysbench} sysbench, QiOi", self._load(rate, 3), options.sysbench, config),
        )
        return DemoResult(options, rate, maximum, threshold, config, host, (alone, together, protected), self._files())

    def _files(self) -> str:
        """Say where the ledgers stand."""
        return explain_directory(self._options.directory)

    def _probe(self, runner: Measures) -> float:
        label = "looking for the ledger's maximum"
        found = runner.maximum(lambda seconds: self._step(label, min(seconds, PROBE_SECONDS)))
        self._done += PROBE_SECONDS
        return found

    def _arm(self, runner: Measures, arm: Arm) -> ArmFigures:
        label = f"measuring: {arm.title}"
        figures = runner.run(arm, lambda seconds: self._step(label, min(seconds, arm.seconds)))
        self._done += arm.load.warmup + arm.load.duration + 2
        return figures

    def _load(self, rate: float, seed: int) -> LoadPlan:
        return LoadPlan(self._options.duration, self._options.warmup, rate=rate, seed=seed)

    def _step(self, label: str, seconds: float) -> None:
        self._progress(label, min(self._done + seconds, self._total), self._total)


def default_threshold(law: str, alone: float, maximum: float | None) -> float:
    """Choose T in transactions per second.

    Under ``adaptive`` a channel is owed what the ledger reaches alone. Algorithm 1 has no memory: at that T its shares
    would fall back whenever throughput returns, and oscillate. With the ledger's maximum as T it keeps a steady boost.
    """
    if law == "proportional" and maximum is not None:
        return round(maximum)
    return round(alone, 1)


def explain_threshold(result: DemoResult) -> str:
    """Say which threshold was used and why."""
    if result.options.threshold is not None:
        return f"{result.threshold:g} tps, as given"
    if result.options.law == "proportional" and result.maximum is not None:
        return f"{result.threshold:g} tps: the ledger's own maximum, so that Algorithm 1 keeps a steady boost"
    return f"{result.threshold:g} tps: what the ledger committed alone"


def explain_directory(directory: Path) -> str:
    """Say where the ledgers stood."""
    kind = file_system(directory)
    if kind == "tmpfs":
        return f"{directory} ({kind}): in memory, so that CPU is what is compared; --dir names a folder on a disk"
    return f"{directory} ({kind})"


@dataclass(frozen=True, slots=True)
class Setting:
    """What the page says of where the demo ran."""

    place: str = "on one machine"
    neighbours: str = "CPU-bound processes"
    groups: str = "one CPU control group per process; share 1024, the load client 65,536 in every arm"


def write_results(result: DemoResult, directory: Path, setting: Setting = Setting()) -> Path:
    """Write result.json, table.md and report.html; return the page's path."""
    (directory / "result.json").write_text(json.dumps(asdict(result), indent=2, default=str) + "\n", encoding="utf-8")
    (directory / "table.md").write_text(markdown(result.arms, result.machine.cores), encoding="utf-8")
    options, lab = result.options, result.options.lab
    found = f"{result.maximum:.0f} tps, closed-loop clients" if result.maximum is not None else "not looked for"
    page = Page(
        title=f"A ledger beside {options.sysbench} sysbench, without and with QiOi",
        lead=(
            f"{lab.orgs * lab.peers_per_org} peers of {lab.orgs} organisations, {lab.orderers} orderers and a "
            f"chaincode process per peer run {setting.place} and commit {result.rate:.0f} transactions per second: "
            f"alone, beside {options.sysbench} {setting.neighbours}, and beside them with QiOi moving CPU shares."
        ),
        facts=(
            ("Load", f"{result.rate:.0f} tps, open loop, smallbank; latency counts from the intended send time"),
            ("Maximum", found),
            ("Ledger", f"{MODES[lab.mode]}, {lab.consenter} ordering, TLS on, every commit flushed"),
            ("Files", result.files),
            ("Groups", CONTAINERS if lab.runtime == "docker" else setting.groups),
            (
                "Each arm",
                f"{options.warmup:g} s warm-up left out, during which sysbench comes; {options.duration:g} s measured",
            ),
            ("Law", options.law),
            ("Threshold", explain_threshold(result)),
        ),
        config=result.config,
        files=tuple(str(path.relative_to(directory)) for path in raw_files(directory)),
    )
    report = directory / "report.html"
    write_report(report, page, result.arms, result.machine)
    return report


def raw_files(directory: Path) -> list[Path]:
    """List what is worth a link from the page."""
    patterns = ("result.json", "table.md", "*/load.json", "*/samples.csv", "*/daemon.log")
    return [path for pattern in patterns for path in sorted(directory.glob(pattern))]
