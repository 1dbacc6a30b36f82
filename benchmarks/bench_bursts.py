#!/usr/bin/env python3
"""Bursts of load beside neighbours that stay: each burst's latency from its first transaction, to alone's.

    python benchmarks/bench_bursts.py [--sysbench 16] [--rate 700] [--bursts 4] [--beside parent] [--repeat 1]
        [--output DIR]

Alone first, then beside the neighbours without QiOi, then with it, or in the opposite order where the repeat's number
is even; the daemon starts when the neighbours are there.
``--beside parent``: the neighbours are siblings of the ledger's parent group, each as heavy as the whole ledger.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click
import yaml
from lab_bench import Place, in_turn, placed, repeat_option

from qioi.interference import Sysbench
from qioi.lab.daemon import Daemon, daemon_config
from qioi.lab.figures import LoadFigures
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun, read_result
from qioi.lab.network import Network
from qioi.processes.cgroups import Group
from qioi.processes.tree import Tree

#: Seconds that a burst of load lasts, and seconds that the daemon runs before the first burst.
BURST, LEAD = 6.0, 8.0
#: Seconds of load after a burst, which close the block that its last transactions are in.
COOLDOWN = 2.0
#: The bursts that all others are compared with.
ALONE = "alone"


class Siblings(Tree):
    """Groups beside the lab's parent group, so that each weighs as much as the whole ledger."""

    def group(self, name: str) -> Group:
        """Name a sibling."""
        return Group(self.mounts, f"{self.name}-{name}")


class Bench:
    """One lab, and where the neighbours are."""

    def __init__(self, lab: Lab, network: Network, directory: Path, rate: float, every: float) -> None:
        self._lab, self._network, self._directory = lab, network, directory
        self._rate, self._every = rate, every
        self._beside = Sysbench(lab.tree, 0, directory)

    def bursts(self, name: str, number: int) -> list[LoadFigures]:
        """Measure bursts, one after the other."""
        found = []
        for burst in range(number):
            due = time.monotonic() + self._every
            folder = self._directory / name / str(burst + 1)
            folder.mkdir(parents=True, exist_ok=True)
            plan = LoadPlan(BURST, 0.0, rate=self._rate, seed=burst + 1, cooldown=COOLDOWN)
            with LoadRun(self._lab, plan, folder) as load:
                while load.running():
                    self._lab.check()
                    self._beside.check()
                    time.sleep(0.1)
                # Alone a burst without a commit is no result: its latency of 0 would be the base of all others.
                result = load.result() if name == ALONE else read_result(load, folder / "load.json")
            figures = result.figures
            click.echo(f"{name}, burst {burst + 1}: {figures.throughput:.0f} tps, p95 {short(figures)} ms")
            found.append(figures)
            if burst + 1 < number:
                time.sleep(max(0.0, due - time.monotonic()))
        return found

    @contextlib.contextmanager
    def neighbours(self, tree: Tree, count: int) -> Iterator[None]:
        """Have neighbours in a tree of groups."""
        sysbench = Sysbench(tree, count, self._directory)
        sysbench.prepare()
        with sysbench:
            self._beside = sysbench
            yield

    @contextlib.contextmanager
    def daemon(self) -> Iterator[None]:
        """Have a daemon without a threshold."""
        config = yaml.safe_load(daemon_config(self._lab, self._network, law="adaptive", threshold=1.0))
        config["channels"] = {channel: {} for channel in self._network.channels}
        with Daemon(self._lab, yaml.safe_dump(config), self._directory):
            time.sleep(LEAD)
            yield


def short(figures: LoadFigures, base: float = 1.0, digits: int = 0) -> str:
    """Write a burst's p95 to a base; one in which nothing was committed has none."""
    return f"{figures.p95 / base:.{digits}f}" if figures.committed else "-"


def table(rate: float, arms: dict[str, list[LoadFigures]]) -> str:
    """Lay the bursts side by side."""
    alone = statistics.median(one.p95 for one in arms[ALONE])
    lines = ["| | p95 of each burst, ms | to alone | tps, of what is offered |", "| --- | --- | --- | --- |"]
    for name, figures in arms.items():
        cells = (
            ", ".join(short(one) for one in figures),
            ", ".join(short(one, alone, 2) for one in figures),
            ", ".join(f"{one.throughput / rate:.0%}" for one in figures),
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@click.command()
@placed("bursts")
@click.option("--sysbench", "count", type=click.IntRange(1, 256), default=16, show_default=True)
@click.option("--rate", type=float, default=700.0, show_default=True)
@click.option("--bursts", type=click.IntRange(2), default=4, show_default=True)
@click.option(
    "--every", type=float, default=31.0, show_default=True, help="Seconds from one burst's start to the next."
)
@click.option("--beside", type=click.Choice(["components", "parent"]), default="components", show_default=True)
@click.option("--without/--no-without", default=True, help="Measure a burst without QiOi as well.")
@repeat_option
def main(
    place: Place,
    count: int,
    rate: float,
    bursts: int,
    every: float,
    beside: str,
    without: bool,
    repeat: int,
) -> None:
    """Measure, write bursts.json and bursts.md, and print the table."""
    arms: dict[str, list[LoadFigures]] = {}
    with contextlib.ExitStack() as stack:
        lab, network = stack.enter_context(place.network())
        tree = Siblings(lab.tree.name) if beside == "parent" else lab.tree
        bench = Bench(lab, network, place.results, rate, every)
        bench.bursts("warm", 1)
        time.sleep(3.0)

        def measure_alone() -> None:
            arms[ALONE] = bench.bursts(ALONE, 2)

        def measure_beside() -> None:
            with bench.neighbours(tree, count):
                for one in in_turn((["nothing"] if without else []) + ["qioi"], repeat):
                    with bench.daemon() if one == "qioi" else contextlib.nullcontext():
                        arms[one] = bench.bursts(one, bursts if one == "qioi" else 1)
                    if one == "nothing":  # its backlog must not slow down the next arm
                        time.sleep(every / 2)

        for measure in in_turn((measure_alone, measure_beside), repeat):
            measure()
    measured = {name: [asdict(one) for one in figures] for name, figures in arms.items()}
    place.write({**measured, "rate": rate}, table(rate, arms))


if __name__ == "__main__":
    main()
