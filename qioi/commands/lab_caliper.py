"""``qioi lab caliper``: Hyperledger Caliper's stock Fabric connector against the lab, or a Fabric of one's own."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from rich.table import Table

from qioi.commands.lab_errors import one_line_errors
from qioi.commands.numbers import Finite
from qioi.commands.options import plain_console
from qioi.lab.caliper import Run, file_target, lab_target, run
from qioi.lab.caliper_files import Overrides, find_configs
from qioi.lab.lab import DEFAULT_DIRECTORY, Lab

#: As of an experiment's loads. One above 2^53 the workloads refuse, when their round has begun.
MOST_SEED = 2**31 - 1


@click.command("caliper")
@click.argument("benchmark")
@click.option(
    "--network",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Drive what this file describes, not the lab: a Caliper network file, or a network.json of the ledger's init.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="The lab's folder.",
)
@click.option("--rounds", multiple=True, metavar="LABEL,...", help="Only these rounds of the benchmark. Repeatable.")
@click.option("--workers", type=click.IntRange(1, 64), help="Caliper's worker processes, in place of the file's.")
@click.option("--duration", type=click.IntRange(min=1), help="Seconds of each round.")
@click.option(
    "--transactions",
    type=click.IntRange(min=1),
    help="Transactions of each round, in place of a duration: a multiple of the workers.",
)
@click.option("--rate", type=Finite(min=0, min_open=True), help="Transactions/s of rounds at a fixed rate.")
@click.option(
    "--load",
    type=click.IntRange(min=1),
    help="Transactions in flight in rounds at a fixed load: a multiple of the workers.",
)
@click.option(
    "--seed",
    type=click.IntRange(1, MOST_SEED),
    help="Seed of the workloads' random choices: their round argument seed.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new folder for report.html, result.json and the log.  [default: results/caliper-BENCHMARK-TIME]",
)
def command(
    benchmark: str,
    network: Path | None,
    directory: Path,
    rounds: tuple[str, ...],
    workers: int | None,
    duration: int | None,
    transactions: int | None,
    rate: float | None,
    load: int | None,
    seed: int | None,
    output: Path | None,
) -> None:
    """Run BENCHMARK (smallbank, simple, marbles, or a Caliper benchmark file) with Hyperledger Caliper.

    Its stock Fabric connector is installed from npm's registry by a lock file when it is first needed.
    """
    if duration is not None and transactions is not None:
        raise click.UsageError("--duration and --transactions exclude each other")
    labels = tuple(label.strip() for text in rounds for label in text.split(",") if label.strip())
    overrides = Overrides(labels, workers, duration, transactions, rate, load, seed)
    output = output or Path("results", f"caliper-{Path(benchmark).stem}-{datetime.now():%Y%m%d-%H%M%S}")
    with one_line_errors(output):
        configs = find_configs()
        target = lab_target(Lab(directory), configs) if network is None else file_target(network, configs)
        finished = run(benchmark, target, overrides, output, say=click.echo)
    plain_console(140).print(as_table(finished))
    for entry in finished.rounds:
        for kind in entry.errors:
            click.echo(f"{entry.label}: {kind['count']} x {kind['message']}")
    click.echo(f"{finished.directory}: report.html, result.json, caliper.log")
    if finished.problems:
        raise click.ClickException("; ".join(finished.problems))


def as_table(finished: Run) -> Table:
    """Format the rounds for people."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("round", overflow="fold")
    for heading in ("succeeded", "failed", "sent/s", "goodput/s", "mean ms", "p50", "p95", "p99", "max"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for entry in finished.rounds:
        latency = entry.latency_ms
        values = (latency.mean, latency.p50, latency.p95, latency.p99, latency.max) if latency else (None,) * 5
        cells = (entry.succeeded, entry.failed, entry.send_rate, entry.goodput, *values)
        table.add_row(entry.label, *("-" if cell is None else f"{cell}" for cell in cells))
    return table
