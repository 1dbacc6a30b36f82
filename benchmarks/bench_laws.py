#!/usr/bin/env python3
"""The laws side by side: nothing, fixed shares, proportional, adaptive, adaptive with slices, on one lab.

A condition is who acts, under one load (fixed: 60 % of the maximum; saturating: closed-loop clients) beside one number
of sysbench. All conditions of a load run one after the other on the same lab, and every ratio is taken within the
repeat, to the "alone" of that load. The whole table takes 20 minutes. A condition's figures are written as soon as it
ends, and one whose figures are there is not run again: name the same --output to go on, or to add repeats.

    python benchmarks/bench_laws.py [--load fixed --load saturating] [--sysbench 4 --sysbench 8 --sysbench 16]
        [--condition adaptive ...] [--repeats 2] [--output DIR]

--up names the folder of a network that is up already: one of `qioi lab up`, or another one, real Hyperledger Fabric
among them, that is described by the same two files there (docs/laws.md).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click
from laws_figures import ALONE, CONDITIONS, FIXED_SHARES, Condition, Row, accounts, condense, load_rows, table

from qioi.lab.arms import BLOCK_PROBE, Arm, Runner
from qioi.lab.daemon import daemon_config
from qioi.lab.demo import LOAD_PART, demo_directory
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan
from qioi.lab.machine import machine
from qioi.lab.network import Network
from qioi.lab.options import LabOptions
from qioi.lab.result_table import milliseconds, percent
from qioi.lab.signals import ending_signals_interrupt, uninterrupted
from qioi.model import DEFAULT_SHARES, Role
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree

FIXED_ROLES = (Role.PEER, Role.ORDERER)
#: Seconds before each measured window. Neighbours come 3 s after the load's beginning. What their coming leaves is gone
#: sooner in a closed loop, which has no backlog.
WARMUP = {"fixed": 13.0, "saturating": 8.0}
#: Seconds after it in which the load goes on, so that its last blocks fill as the others did.
COOLDOWN = 1.0
#: Seconds that a condition takes beyond these: processes that start, and what is under way at the end.
EDGE = 1.5
#: What is compared unless others are named. Slices need a longer warm-up: they are not tried in the first 15 s.
USUAL = ("nothing", "fixed", "proportional", "adaptive")


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
        """Hold peers and orderers at a fixed share."""
        groups = [self._lab.tree.group(one.name) for one in self._network.nodes if wanted and one.role in FIXED_ROLES]
        try:
            for group in groups:
                group.set_shares(FIXED_SHARES)
            yield
        finally:
            for group in groups:
                group.set_shares(DEFAULT_SHARES)


@contextmanager
def network_of(up: Path | None, folder: Path, base_port: int) -> Iterator[tuple[Lab, Network]]:
    """Give a network that is up, or bring one up for as long as it is needed."""
    if up is not None:
        lab = Lab(up)
        lab.tree = Tree(str(lab.state()["cgroup_root"]))
        lab.client_group()  # the daemon may come before the first load
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
        text = f"{table(rows, host.cores)}\n{accounts(rows, host.cores)}"
        (directory / "laws.md").write_text(text)
        click.echo(text)
        click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
