#!/usr/bin/env python3
"""The laws side by side: nothing, fixed shares, proportional, adaptive, adaptive with slices, on one lab.

A condition is who acts, under one load (fixed: 60 % of the maximum; saturating: closed-loop clients) beside one number
of sysbench. All conditions of a load run one after the other on the same lab, and every ratio is taken within the
repeat, to the "alone" of that load. The whole table takes 25 minutes. A condition's figures are written as soon as it
ends, and one whose figures are there is not run again: name the same --output to go on, or to add repeats.

    python benchmarks/bench_laws.py [--load fixed --load saturating] [--sysbench 4 --sysbench 8 --sysbench 16]
        [--condition adaptive ...] [--repeats 2] [--output DIR]

--up names the folder of a network that is up already: one of `qioi lab up`, or another one, real Hyperledger Fabric
among them, that is described by the same two files there (docs/laws.md).
"""

from __future__ import annotations

import csv
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from qioi.lab.arms import BLOCK_PROBE, Arm, Runner
from qioi.lab.cgroups import Tree
from qioi.lab.daemon import daemon_config
from qioi.lab.demo import LOAD_PART, demo_directory
from qioi.lab.errors import LabError
from qioi.lab.figures import ArmFigures, quotient
from qioi.lab.lab import Lab, LabOptions
from qioi.lab.load import LoadPlan, parse_result
from qioi.lab.machine import machine
from qioi.lab.network import Network
from qioi.lab.signals import ending_signals_interrupt, uninterrupted
from qioi.lab.table import milliseconds, percent, times
from qioi.types import DEFAULT_SHARES, Role

ALONE = "alone"
#: What the papers' authors and the field would set by hand: what k = 4 reaches at most.
FIXED_SHARES = 5 * DEFAULT_SHARES
FIXED_ROLES = (Role.PEER, Role.ORDERER)
#: Seconds before each measured window. Neighbours come 3 s after the load's beginning. What their coming leaves is gone
#: sooner in a closed loop, which has no backlog.
WARMUP = {"fixed": 13.0, "saturating": 8.0}
#: Seconds after it in which the load goes on, so that its last blocks fill as the others did.
COOLDOWN = 1.0
#: Seconds that a condition takes beyond these: processes that start, and what is under way at the end.
EDGE = 1.5
#: Seconds in which a settled share may move by a tenth.
STEADY = 60.0


@dataclass(frozen=True)
class Condition:
    """Who acts. ``law`` is the daemon's, if there is one; ``most``: T is the maximum, not what is committed alone."""

    name: str
    title: str
    law: str | None = None
    slices: str = "off"
    most: bool = False
    fixed: bool = False


CONDITIONS = {
    one.name: one
    for one in (
        Condition("nothing", "nothing"),
        Condition("fixed", f"peers and orderers at {FIXED_SHARES}", fixed=True),
        Condition("proportional", "proportional", "proportional"),
        Condition("proportional-most", "proportional, T the maximum", "proportional", most=True),
        Condition("adaptive", "adaptive", "adaptive"),
        Condition("slices", "adaptive, slices auto", "adaptive", slices="auto"),
    )
}
#: What is compared unless others are named.
USUAL = ("nothing", "fixed", "proportional", "adaptive", "slices")


@dataclass(frozen=True)
class Row:
    """One condition's figures: tps, ms, CPUs, sysbench events per second; ``movement`` as a part of the least share."""

    load: str
    sysbench: int
    repeat: int
    condition: str
    tps: float
    p50: float
    p95: float
    p99: float
    failed: int
    peers_delay: float
    ledger_cores: float
    client_cores: float
    daemon_cores: float
    events: float
    events_per_core: float | None
    movement: float
    seconds: float
    steal: float


class Laws:
    """One lab, and the folder of the figures."""

    def __init__(
        self, lab: Lab, network: Network, directory: Path, duration: float, clients: int, warmup: float | None
    ) -> None:
        self._lab = lab
        self._network = network
        self._directory = directory
        self._duration = duration
        self._clients = clients
        self._warmup = warmup

    def maximum(self, given: float | None) -> float:
        """What the lab commits at most: given, known from before, or looked for now."""
        file = self._directory / "maximum.json"
        if given is None and file.exists():
            return float(json.loads(file.read_text())["tps"])
        found = given or Runner(self._lab, self._network, self._directory).maximum()
        file.write_text(json.dumps({"tps": found}) + "\n")
        return found

    def load(self, load: str, counts: Sequence[int], repeat: int, wanted: Sequence[Condition], maximum: float) -> None:
        """Run what is missing of one load; every other repeat in the opposite order."""
        alone = self._row(load, 0, repeat, None, None, maximum)
        pairs = [(count, condition) for count in counts for condition in wanted]
        for count, condition in pairs if repeat % 2 else pairs[::-1]:
            self._row(load, count, repeat, condition, alone, maximum)

    def _row(
        self, load: str, count: int, repeat: int, condition: Condition | None, alone: Row | None, maximum: float
    ) -> Row:
        name = condition.name if condition else ALONE
        folder = self._directory / f"{load}-{count}-repeat{repeat}"
        file = folder / name / "row.json"
        if file.exists():
            return Row(**json.loads(file.read_text()))
        plan = self._plan(load, repeat, maximum)
        config = None
        if condition is not None and condition.law is not None:
            assert alone is not None
            owed = round(maximum if condition.most else min(alone.tps, plan.rate or alone.tps), 1)
            config = daemon_config(self._lab, self._network, law=condition.law, threshold=owed, slices=condition.slices)
        arm = Arm(name, name, plan, count if condition else 0, config)
        runner = Runner(self._lab, self._network, folder)
        with self._fixed(condition is not None and condition.fixed):
            figures = runner.run(arm)
        row = condense(load, count, repeat, name, figures, folder / name)
        file.write_text(json.dumps(asdict(row), indent=2) + "\n")
        click.echo(
            f"{load}, {count} sysbench, {name}: {row.tps:.0f} tps, p95 {milliseconds(row.p95)}, sysbench "
            f"{row.events:.0f}/s, shares move {percent(row.movement)} in {row.seconds:.0f} s"
        )
        return row

    def _plan(self, load: str, repeat: int, maximum: float) -> LoadPlan:
        warmup = self._warmup or WARMUP[load]
        if load == "fixed":
            rate = round(LOAD_PART * maximum, -1)
            return LoadPlan(self._duration, warmup, rate=rate, seed=repeat, cooldown=COOLDOWN)
        return LoadPlan(self._duration, warmup, clients=self._clients, seed=repeat, cooldown=COOLDOWN)

    @contextmanager
    def _fixed(self, wanted: bool) -> Iterator[None]:
        """Hold peers and orderers at a share of somebody's choice."""
        groups = [self._lab.tree.group(one.name) for one in self._network.nodes if wanted and one.role in FIXED_ROLES]
        try:
            for group in groups:
                group.set_shares(FIXED_SHARES)
            yield
        finally:
            for group in groups:
                group.set_shares(DEFAULT_SHARES)


def condense(load: str, count: int, repeat: int, name: str, figures: ArmFigures, folder: Path) -> Row:
    """Keep of an arm's figures what the laws are compared by."""
    result = parse_result(json.loads((folder / "load.json").read_text()), folder / "load.json")
    moved, seconds = movement(folder / "samples.csv", result.start, result.end)
    return Row(
        load=load,
        sysbench=count,
        repeat=repeat,
        condition=name,
        tps=figures.load.throughput,
        p50=figures.load.p50,
        p95=figures.load.p95,
        p99=figures.load.p99,
        failed=figures.load.failed,
        peers_delay=figures.roles[Role.PEER].delay,
        ledger_cores=figures.ledger_cores,
        client_cores=figures.client_cores,
        daemon_cores=figures.daemon_cores,
        events=figures.interferer.events,
        events_per_core=figures.interferer.events_per_core,
        movement=moved,
        seconds=seconds,
        steal=figures.quiet.steal,
    )


def movement(samples: Path, start: float, end: float) -> tuple[float, float]:
    """Give the widest range of any one share within a minute, to its least, and how long was looked at in s."""
    shares: dict[str, list[tuple[float, float]]] = {}
    with samples.open() as file:
        for line in csv.DictReader(file):
            if line["shares"] and start <= float(line["unix"]) <= end:
                shares.setdefault(line["name"], []).append((float(line["unix"]), float(line["shares"])))
    widest = max((within(series) for series in shares.values()), default=0.0)
    return widest, min(STEADY, end - start)


def within(series: Sequence[tuple[float, float]]) -> float:
    """Give the widest range of a series within any minute of it, to its least."""
    widest = 0.0
    for place, (begun, _) in enumerate(series):
        values = [value for at, value in series[place:] if at <= begun + STEADY]
        widest = max(widest, max(values) / min(values) - 1)
    return widest


def load_rows(directory: Path) -> list[Row]:
    """Read what has been measured so far."""
    rows = [Row(**json.loads(file.read_text())) for file in sorted(directory.glob("*/*/row.json"))]
    order = [ALONE, *CONDITIONS]
    return sorted(rows, key=lambda row: (row.load, row.sysbench, order.index(row.condition), row.repeat))


def spread(values: Sequence[float], spell: Callable[[float], str]) -> str:
    """Spell the median and, of several, the least and the most."""
    middle = spell(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({spell(min(values))} .. {spell(max(values))})"


def table(rows: Iterable[Row], cores: int) -> str:
    """Lay the conditions side by side, a line each."""
    heads = (
        "load", "sysbench", "condition", "tps", "of alone", "p50", "p95", "p95 to alone", "sysbench events/s",
        "of its due", "peers' delay", "widest move of a share",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --- |" * (len(heads) - 1)]
    rows = list(rows)
    bases = {(row.load, row.repeat): row for row in rows if row.condition == ALONE}
    for key in dict.fromkeys((row.load, row.sysbench, row.condition) for row in rows):
        its = [row for row in rows if (row.load, row.sysbench, row.condition) == key]
        alone = [bases[row.load, row.repeat] for row in its]
        owed = [due(row, base, cores) for row, base in zip(its, alone, strict=True)]
        dues = [row.events / events for row, events in zip(its, owed, strict=True) if events]
        condition = CONDITIONS.get(key[2])
        cells = (
            key[0],
            str(key[1]),
            condition.title if condition else ALONE,
            spread([row.tps for row in its], lambda value: f"{value:.0f}"),
            spread([quotient(row.tps, base.tps) for row, base in zip(its, alone, strict=True)], percent),
            spread([row.p50 for row in its], milliseconds),
            spread([row.p95 for row in its], milliseconds),
            spread([quotient(row.p95, base.p95) for row, base in zip(its, alone, strict=True)], times),
            spread([row.events for row in its], lambda value: f"{value:.0f}") if condition else "-",
            spread(dues, percent) if dues else "-",
            spread([row.peers_delay for row in its], milliseconds),
            f"{spread([row.movement for row in its], percent)} in {its[0].seconds:.0f} s",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def due(row: Row, alone: Row, cores: int) -> float:
    """Events per second that sysbench is owed: what ledger and client leave free when they run alone."""
    free = max(0.0, cores - alone.ledger_cores - alone.client_cores)
    # Below a twentieth of a CPU that is what is left of a measurement, not something to divide by.
    return free * (row.events_per_core or 0.0) if free >= 0.05 else 0.0


@contextmanager
def network_of(up: Path | None, folder: Path, base_port: int) -> Iterator[tuple[Lab, Network]]:
    """Give a network that is up, or bring one up for as long as it is needed."""
    if up is not None:
        lab = Lab(up)
        lab.tree = Tree(str(lab.state()["cgroup_root"]))
        yield lab, lab.network()
        return
    lab = Lab(folder)
    network = lab.up(LabOptions(mode="block", base_port=base_port), die_with_parent=True, say=click.echo)
    try:
        yield lab, network
    finally:
        with uninterrupted():
            lab.down()


@click.command()
@click.option("--load", "loads", type=click.Choice(["fixed", "saturating"]), multiple=True)
@click.option("--sysbench", "counts", type=click.IntRange(1, 256), multiple=True, default=(4, 8, 16), show_default=True)
@click.option(
    "--condition", "names", type=click.Choice(list(CONDITIONS)), multiple=True, default=USUAL, show_default=True
)
@click.option("--repeats", type=click.IntRange(1), default=2, show_default=True)
@click.option("--maximum", type=float, help="What the lab commits at most, in tps [default: look for it].")
@click.option("--duration", type=float, default=10.0, show_default=True, help="Seconds measured per condition.")
@click.option(
    "--warmup", type=float, help=f"Seconds before them [default: {', '.join(f'{k} {v:g}' for k, v in WARMUP.items())}]."
)
@click.option(
    "--clients", type=click.IntRange(1), default=BLOCK_PROBE.clients, show_default=True, help="If saturating."
)
@click.option("--up", type=click.Path(file_okay=False, exists=True, path_type=Path), help="A network that is up.")
@click.option("--base-port", type=int, default=17_000, show_default=True)
@click.option("--dir", "folder", type=click.Path(file_okay=False, path_type=Path), help="Where the ledgers stand.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
def main(
    loads: tuple[str, ...],
    counts: tuple[int, ...],
    names: tuple[str, ...],
    repeats: int,
    maximum: float | None,
    duration: float,
    warmup: float | None,
    clients: int,
    up: Path | None,
    base_port: int,
    folder: Path | None,
    output: Path | None,
) -> None:
    """Measure what is missing, write laws.json and laws.md, and print the table."""
    directory = (output or Path("results") / f"laws-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    wanted = [CONDITIONS[name] for name in names]
    loads = loads or tuple(WARMUP)
    cells = [
        (warmup or WARMUP[load]) + duration + COOLDOWN + EDGE
        for load in loads
        for _ in range(len(counts) * len(wanted) + 1)
    ]
    click.echo(f"{repeats * len(cells)} measurements, about {repeats * sum(cells) / 60:.0f} minutes in all")
    try:
        with ending_signals_interrupt(), network_of(up, folder or demo_directory(), base_port) as (lab, network):
            laws = Laws(lab, network, directory, duration, clients, warmup)
            most = laws.maximum(maximum)
            click.echo(f"maximum {most:.0f} tps")
            for repeat in range(1, repeats + 1):
                for load in loads:
                    laws.load(load, counts, repeat, wanted, most)
    except LabError as error:
        raise click.ClickException(str(error)) from error
    finally:
        host, rows = machine(), load_rows(directory)
        document = {"machine": asdict(host), "rows": [asdict(row) for row in rows]}
        (directory / "laws.json").write_text(json.dumps(document, indent=2) + "\n")
        (directory / "laws.md").write_text(table(rows, host.cores))
        click.echo(table(rows, host.cores))
        click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
