#!/usr/bin/env python3
"""How large a share is enough: a fixed load beside neighbours, with a sweep of fixed shares and with QiOi.

    python benchmarks/bench_enough.py [--sysbench 4 --sysbench 8 ...] [--shares 2048 ...] [--rate 900] [--repeat 1]
        [--output DIR]

On one lab, one after the other: alone, then beside each number of neighbours every fixed share, and QiOi, which finds
its own; after the first, in the opposite order where the repeat's number is even. *Settled* are the shares at the
window's end. *Enough* is the least of the fixed shares that does as well: its p95 is at most a tenth above QiOi's.
Samples and the daemon's log stay in the folder.
"""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from lab_bench import Place, by_hand, in_turn, placed, repeat_option
from laws_figures import ALONE, Row, ratio, row_of, spread

from qioi.lab.arms import Arm, Runner
from qioi.lab.daemon import daemon_config
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, parse_result
from qioi.lab.network import Network
from qioi.lab.result_table import milliseconds, times

ADAPTIVE = "adaptive"
#: A p95 up to this factor of another one is as good.
NEAR = 1.1
#: Further seconds of warm-up beside neighbours: QiOi says what is just enough 6 s after their coming.
SETTLING = 6.0


@dataclass(frozen=True)
class Tried:
    """One condition's figures: ``shares`` are those set by hand, ``settled`` the components' at the window's end.

    ``delay`` is the components' mean wait per time slice in ms, ``waiting`` what they wait of their runnable time.
    """

    row: Row
    shares: int | None
    settled: tuple[int, ...]
    delay: float
    waiting: float


class Bench:
    """One lab, and what has been measured on it."""

    def __init__(self, lab: Lab, network: Network, directory: Path, plan: LoadPlan) -> None:
        self._lab, self._network, self._directory, self._plan = lab, network, directory, plan
        self.done: list[Tried] = []

    def run(self, count: int, shares: int | None = None) -> None:
        """Measure one condition; without ``shares`` QiOi acts."""
        name = ALONE if not count else f"{count}-{shares or ADAPTIVE}"
        plan, config = self._plan, None
        if count:  # by hand as well: what piled up as they came would count against these arms alone
            plan = replace(plan, warmup=plan.warmup + SETTLING)
        if count and shares is None:
            config = daemon_config(self._lab, self._network, law=ADAPTIVE, threshold=self.done[0].row.tps)
        arm = Arm(name, name, plan, count, config, may_stall=count > 0)
        with by_hand(self._lab, self._network, shares):
            figures = Runner(self._lab, self._network, self._directory).run(arm)
        row = row_of("fixed", count, 1, name, figures, self._directory / name)
        settled, delay, waiting = scheduling(self._directory / name)
        self.done.append(Tried(row, shares, settled, delay, waiting))
        click.echo(line(self.done[-1], self.done[0]))


def scheduling(folder: Path) -> tuple[tuple[int, ...], float, float]:
    """Give the components' last shares in an arm's window, their wait per slice in ms, and what part they waited."""
    result = parse_result(json.loads((folder / "load.json").read_text(encoding="utf-8")), folder / "load.json")
    shares: dict[str, int] = {}
    run, wait, slices = 0.0, 0.0, 0
    with (folder / "samples.csv").open(encoding="utf-8") as file:
        inside = [one for one in csv.DictReader(file) if result.start <= float(one["unix"]) <= result.end]
    for one in inside:
        if one["slices"]:
            shares[one["name"]] = int(one["shares"])
            if one["unix"] != inside[0]["unix"]:  # what the first sample counts began before the window
                run, wait, slices = run + float(one["run_s"]), wait + float(one["wait_s"]), slices + int(one["slices"])
    return tuple(sorted(shares.values())), 1000 * wait / max(1, slices), wait / (run + wait)


def enough(tried: Iterable[Tried], p95: float | None) -> int | None:
    """Give the least of the fixed shares that does as well as a p95 in ms."""
    fixed = [(one.row.p95, one.shares) for one in tried if one.shares is not None and one.row.p95 is not None]
    return None if p95 is None else min((shares for its, shares in fixed if its <= NEAR * p95), default=None)


HEAD = "| sysbench | | settled at | tps | p95 | p95 to alone | wait a slice | waits | sysbench events/s | steal, CPUs |"


def line(one: Tried, alone: Tried) -> str:
    """Format one condition as a line of the table."""
    row = one.row
    cells = (
        str(row.sysbench),
        ALONE if not row.sysbench else f"{one.shares:,} by hand" if one.shares else ADAPTIVE,
        f"{statistics.median(one.settled):,.0f} ({one.settled[0]:,} .. {one.settled[-1]:,})",
        f"{row.tps:.0f}",
        spread([row.p95], milliseconds),
        spread([ratio(row.p95, alone.row.p95)], times),
        f"{one.delay:.2f} ms",
        f"{one.waiting:.0%}",
        f"{row.events:.0f}",
        f"{row.steal:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def table(done: Sequence[Tried]) -> str:
    """Lay all conditions side by side, and say what would have been enough."""
    lines = [HEAD, "|" + " --- |" * 10, *(line(one, done[0]) for one in done), ""]
    for count in dict.fromkeys(one.row.sysbench for one in done[1:]):
        beside = [one for one in done if one.row.sysbench == count]
        for one in beside:
            least = enough(beside, one.row.p95) if one.shares is None else None
            if least is not None:
                part = statistics.median(one.settled) / least
                lines.append(f"Beside {count}, {least:,} does as well; QiOi settled at {part:.1f} times that.")
    return "\n".join(lines) + "\n"


@click.command()
@placed("enough")
@click.option("--sysbench", "counts", type=click.IntRange(1, 256), multiple=True, default=(4, 8, 16), show_default=True)
@click.option("--shares", type=int, multiple=True, default=(2048, 4096, 8192, 16_384), show_default=True)
@click.option("--rate", type=float, default=900.0, show_default=True, help="Transactions offered per second.")
@click.option("--duration", type=float, default=7.0, show_default=True, help="Seconds measured per condition.")
@click.option("--warmup", type=float, default=7.0, show_default=True, help="Seconds before; neighbours come in them.")
@repeat_option
def main(
    place: Place,
    counts: tuple[int, ...],
    shares: tuple[int, ...],
    rate: float,
    duration: float,
    warmup: float,
    repeat: int,
) -> None:
    """Measure, write enough.json and enough.md, and print the table."""
    with place.network() as (lab, network):
        bench = Bench(lab, network, place.results, LoadPlan(duration, warmup, rate=rate, cooldown=0.5))
        bench.run(0)
        for count, one in in_turn([(count, one) for count in counts for one in (*shares, None)], repeat):
            bench.run(count, one)
    place.write({"rows": [asdict(one) for one in bench.done]}, table(bench.done))


if __name__ == "__main__":
    main()
