#!/usr/bin/env python3
"""What a number for T gives the ledger, and what it leaves to its neighbours: a closed loop that could do more.

    python benchmarks/bench_owed.py [--sysbench 8] [--part 0.4 ...] [--repeat 1] [--output DIR]

On one lab, one after the other: alone, beside the neighbours without QiOi, with fixed shares, and for each T once more
alone, since a ledger that has grown does less, and with QiOi; after the first, in the opposite order where the repeat's
number is even. The window begins 10 s after the neighbours' coming.
*Left* is what the CPUs have when the ledger does T at what a transaction takes alone, without what runs outside of the
lab. Samples and the daemon's log stay in the folder.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import click
import yaml
from lab_bench import ArmInTime, Place, by_hand, in_turn, placed, repeat_option
from laws_figures import ALONE, BY_HAND, Row, row_of, spread

from qioi.lab.arms import BLOCK_PROBE, Runner
from qioi.lab.daemon import daemon_config
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan
from qioi.lab.machine import machine
from qioi.lab.network import Network
from qioi.lab.result_table import milliseconds

#: Seconds from the load's beginning to the window, beside neighbours and alone, and from there to the neighbours'
#: coming: to a ledger that has run.
WARMUP, WARMUP_ALONE, COME = 20.0, 10.0, -10.0


@dataclass(frozen=True)
class Owed:
    """One condition: its figures, T, and the neighbours' CPUs as a part of what is left."""

    row: Row
    owed: float | None
    of_left: float | None


class Bench:
    """One lab, and what has been measured on it."""

    def __init__(self, lab: Lab, network: Network, directory: Path, seconds: float, count: int, repeat: int) -> None:
        self._lab, self._network, self._directory = lab, network, directory
        self._seconds, self._count, self._repeat = seconds, count, repeat
        self._cores = machine().cores
        self.done: list[Owed] = []
        self._alone = 0.0, 0.0  # tps, and the CPUs that they take

    def alone(self, name: str = ALONE) -> float:
        """Measure what the ledger does alone, in tps: what is left is reckoned with that from now on."""
        row = self._measure(name, self._plan(WARMUP_ALONE), 0, None)
        self._alone = row.tps, row.ledger_cores + row.client_cores
        self._keep(Owed(row, None, None))
        return row.tps

    def run(
        self, name: str, owed: float | None = None, *, beyond: str = "neighbours", shares: int | None = None
    ) -> None:
        """Measure one condition beside the neighbours."""
        config = None
        if owed is not None:
            document = yaml.safe_load(daemon_config(self._lab, self._network, law="adaptive", threshold=round(owed, 1)))
            document["defaults"]["beyond"] = beyond
            config = yaml.safe_dump(document)
        with by_hand(self._lab, self._network, shares):
            row = self._measure(name, self._plan(WARMUP), self._count, config)
        self._keep(Owed(row, owed, self._of_left(row, owed)))

    def _plan(self, warmup: float) -> LoadPlan:
        return LoadPlan(self._seconds, warmup, clients=BLOCK_PROBE.clients, cooldown=1.0)

    def _measure(self, name: str, plan: LoadPlan, count: int, config: str | None) -> Row:
        arm = ArmInTime(name, name, plan, count, config, bool(count), COME)
        figures = Runner(self._lab, self._network, self._directory).run(arm)
        return row_of("saturating", count, self._repeat, name, figures, self._directory / name)

    def _keep(self, one: Owed) -> None:
        self.done.append(one)
        click.echo(line(one))

    def _of_left(self, row: Row, owed: float | None) -> float | None:
        if owed is None:
            return None
        tps, cores = self._alone
        left = self._cores - row.outside - row.steal - owed / tps * cores
        return row.sysbench_cores / left if left > 0 else None


HEAD = (
    "| | T | A | A to T | p95 | sysbench events/s | its CPUs, of what is left | widest move of a share | steal, CPUs |"
)


def line(one: Owed) -> str:
    """Format one condition as a line of the table."""
    row, owed = one.row, one.owed
    cells = (
        row.condition,
        "" if owed is None else f"{owed:.0f}",
        f"{row.tps:.0f}",
        "" if owed is None else f"{row.tps / owed:.2f}",
        spread([row.p95], milliseconds),
        f"{row.events:.0f}",
        "" if one.of_left is None else f"{one.of_left:.0%}",
        f"{row.movement:.0%}",
        f"{row.steal:.2f}",
    )
    return f"| {' | '.join(cells)} |"


@click.command()
@placed("owed")
@click.option("--sysbench", "count", type=click.IntRange(1, 256), default=8, show_default=True)
@click.option("--part", "parts", type=float, multiple=True, default=(0.4, 0.6, 0.8, 1.0), help="T, of A alone.")
@click.option("--duration", type=float, default=12.0, show_default=True, help="Seconds measured per condition.")
@click.option("--ledger/--no-ledger", default=False, help="Measure `beyond: ledger` as well.")
@repeat_option
def main(
    place: Place,
    count: int,
    parts: tuple[float, ...],
    duration: float,
    ledger: bool,
    repeat: int,
) -> None:
    """Measure, write owed.json and owed.md, and print the table."""
    with place.network() as (lab, network):
        bench = Bench(lab, network, place.results, duration, count, repeat)
        bench.alone()
        conditions: list[str | float] = ["nothing", "fixed", *parts]
        for one in in_turn(conditions, repeat):
            if isinstance(one, str):
                bench.run(one, shares=BY_HAND.get(one))
                continue
            owed = one * bench.alone(f"{ALONE} before {one:.0%}")
            bench.run(f"{one:.0%}", owed)
            if ledger:
                bench.run(f"{one:.0%}, ledger", owed, beyond="ledger")
    text = "\n".join([HEAD, "|" + " --- |" * 9, *map(line, bench.done)]) + "\n"
    place.write({"rows": [asdict(one) for one in bench.done]}, text)


if __name__ == "__main__":
    main()
