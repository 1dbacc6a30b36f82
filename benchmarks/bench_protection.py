#!/usr/bin/env python3
"""What QiOi brings back: 60 % load beside 4 and 8 sysbench, without and with QiOi, against alone.

Every repeat runs all arms on one lab, in an order that is reversed from repeat to repeat, and every ratio is
taken within its repeat; the table shows medians and, in brackets, the least and the most.

    python benchmarks/bench_protection.py [--mode block] [--repeats 3] [--sysbench 4 --sysbench 8] [--law adaptive]
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from qioi.lab.arms import Arm, Runner
from qioi.lab.daemon import daemon_config
from qioi.lab.demo import LOAD_PART, MODE, default_threshold, demo_directory, explain_directory
from qioi.lab.figures import ArmFigures, Ratios, ratios
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan
from qioi.lab.machine import machine
from qioi.lab.options import LabOptions
from qioi.lab.result_table import milliseconds, percent, times
from qioi.lab.signals import ending_signals_interrupt, uninterrupted
from qioi.model import Role
from qioi.processes.errors import LabError

ALONE = "alone"
#: Seconds before each measured window.
WARMUP = 15.0


@dataclass(frozen=True)
class Repeat:
    arms: dict[str, ArmFigures]

    def ratios(self, name: str, cores: int) -> Ratios:
        return ratios(self.arms[name], self.arms[ALONE], cores)


@dataclass(frozen=True)
class Benchmark:
    mode: str
    rate: float
    maximum: float
    cores: int
    law: str
    threshold: float
    repeats: tuple[Repeat, ...]


def plan_arms(counts: Sequence[int], load: LoadPlan, config: str) -> list[Arm]:
    arms = [Arm(ALONE, "alone", load)]
    for count in counts:
        arms.append(Arm(f"beside-{count}", f"{count} sysbench", load, count))
        arms.append(Arm(f"beside-{count}-qioi", f"{count} sysbench, QiOi", load, count, config))
    return arms


def measure(
    directory: Path,
    counts: Sequence[int],
    mode: str,
    repeats: int,
    law: str,
    rate: float | None,
    duration: float,
    base_port: int,
    folder: Path,
) -> Benchmark:
    lab = Lab(folder)
    network = lab.up(LabOptions(mode=mode, base_port=base_port), die_with_parent=True, say=click.echo)
    try:
        runner = Runner(lab, network, directory)
        maximum = runner.maximum()
        offered = rate or round(LOAD_PART * maximum, -1)
        threshold = default_threshold(law, offered, maximum)
        click.echo(f"maximum {maximum:.0f} tps, load {offered:.0f} tps, law {law}, threshold {threshold:g} tps")
        config = daemon_config(lab, network, law=law, threshold=threshold)
        done = []
        for number in range(repeats):
            runner = Runner(lab, network, directory / f"repeat{number + 1}")
            load = LoadPlan(duration, WARMUP, rate=offered, seed=number + 1)
            arms = plan_arms(counts, load, config)
            found = {}
            for arm in arms if number % 2 == 0 else arms[::-1]:
                found[arm.name] = figures = runner.run(arm)
                click.echo(
                    f"repeat {number + 1}, {arm.title}: {figures.load.throughput:.0f} tps, "
                    f"p95 {milliseconds(figures.load.p95)}"
                )
            done.append(Repeat({arm.name: found[arm.name] for arm in arms}))
        return Benchmark(mode, offered, maximum, runner.cores, law, threshold, tuple(done))
    finally:
        with uninterrupted():
            lab.keep_logs(directory / "logs")
            lab.down()


def spread(values: Sequence[float], spell: Callable[[float], str]) -> str:
    middle = spell(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({spell(min(values))} .. {spell(max(values))})"


def table(benchmark: Benchmark) -> str:
    heads = (
        "",
        "tps",
        "of alone",
        "p50",
        "p95",
        "p95 to alone",
        "p99",
        "peers' delay",
        "orderers' delay",
        "flush p95",
        "sysbench of due",
    )
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --- |" * (len(heads) - 1)]
    for name, arm in benchmark.repeats[0].arms.items():
        figures = [repeat.arms[name] for repeat in benchmark.repeats]
        against = [repeat.ratios(name, benchmark.cores) for repeat in benchmark.repeats]
        owed = [found.interferer_due for found in against if found.interferer_due is not None]
        cells = (
            arm.title,
            spread([each.load.throughput for each in figures], lambda value: f"{value:.0f}"),
            spread([each.throughput for each in against], percent),
            spread([each.load.p50 for each in figures], milliseconds),
            spread([each.load.p95 for each in figures], milliseconds),
            spread([each.p95 for each in against], times),
            spread([each.load.p99 for each in figures], milliseconds),
            spread([each.roles[Role.PEER].delay for each in figures], milliseconds),
            spread([each.roles[Role.ORDERER].delay for each in figures], milliseconds),
            spread([each.flush.p95 for each in figures], milliseconds),
            spread(owed, percent) if owed else "-",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--sysbench", "counts", type=click.IntRange(1, 256), multiple=True, default=(4, 8), show_default=True)
@click.option("--mode", type=click.Choice(["block", "stream"]), default=MODE, show_default=True)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--law", type=click.Choice(["adaptive", "proportional"]), default="adaptive", show_default=True)
@click.option("--rate", type=float, help="Offered tps [default: 60 % of the maximum].")
@click.option("--duration", type=float, default=25.0, show_default=True, help="Seconds measured per arm.")
@click.option("--base-port", type=int, default=17_000, show_default=True)
@click.option("--dir", "folder", type=click.Path(file_okay=False, path_type=Path), help="Where the ledgers stand.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
def main(
    counts: tuple[int, ...],
    mode: str,
    repeats: int,
    law: str,
    rate: float | None,
    duration: float,
    base_port: int,
    folder: Path | None,
    output: Path | None,
) -> None:
    """Measure, write protection.json and protection.md, and print the table."""
    directory = (output or Path("results") / f"protection-{mode}-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    host = machine()
    try:
        with ending_signals_interrupt():
            place = folder or demo_directory()
            benchmark = measure(directory, counts, mode, repeats, law, rate, duration, base_port, place)
    except LabError as error:
        raise click.ClickException(str(error)) from error
    document = {"machine": asdict(host), **asdict(benchmark)}
    (directory / "protection.json").write_text(json.dumps(document, indent=2, default=str) + "\n", encoding="utf-8")
    (directory / "protection.md").write_text(table(benchmark), encoding="utf-8")
    click.echo(table(benchmark))
    click.echo(f"ledgers in {explain_directory(place)}")
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
