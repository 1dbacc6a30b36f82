"""``qioi demo``: measure the ledger alone, disturbed, and protected, and write the report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from qioi.commands.lab import runtime_option
from qioi.commands.lab_errors import one_line_errors
from qioi.commands.numbers import Finite
from qioi.lab.caliper import make_empty_folder
from qioi.lab.demo import (
    DURATION,
    MODE,
    WARMUP,
    Demo,
    DemoOptions,
    DemoResult,
    demo_directory,
    explain_threshold,
    write_results,
)
from qioi.lab.options import Runtime
from qioi.lab.report import needs_plots, noise_notes
from qioi.lab.result_table import Row, build_rows

#: The most processes of sysbench.
MOST_NEIGHBOURS = 256
COLOURS = {"good": "green", "bad": "red"}


def neighbours() -> int:
    """Choose how many processes of sysbench disturb: enough that they leave no CPU free."""
    return min(MOST_NEIGHBOURS, max(8, 4 * (os.cpu_count() or 1)))


@click.command()
@click.option("--sysbench", type=click.IntRange(1, MOST_NEIGHBOURS), default=neighbours, help="Interfering processes.",
              show_default="8, or 4 for each CPU where that is more")  # fmt: skip
@click.option(
    "--mode",
    type=click.Choice(["block", "stream"]),
    default=MODE,
    show_default=True,
    help="Fabric's blocks (500 transactions or 2 s), or each transaction on its own.",
)
@click.option(
    "--law",
    type=click.Choice(["adaptive", "proportional"]),
    default="adaptive",
    show_default=True,
    help="QiOi's own control law, or the paper's Algorithm 1.",
)
@click.option("--rate", type=Finite(min=0, min_open=True), help="Offered tps [default: 60 % of the maximum].")
@click.option("--threshold", type=Finite(min=0, min_open=True), help="T in tps [default: by the law].")
@click.option("--duration", type=Finite(min=5), default=DURATION, show_default=True, help="Seconds measured.")
@click.option("--warmup", type=Finite(min=1), default=WARMUP, show_default=True, help="Seconds of load before that.")
@click.option(
    "--base-port",
    type=click.IntRange(1024, 65_000),
    default=17_000,
    show_default=True,
    help="First of the loopback ports that the nodes listen on.",
)
@runtime_option
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the ledgers stand meanwhile, an empty or new folder [default: in memory if there is room].",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="An empty or new folder for report.html and the raw data [default: results/<time>].",
)
def command(
    sysbench: int,
    mode: str,
    law: str,
    rate: float | None,
    threshold: float | None,
    duration: float,
    warmup: float,
    base_port: int,
    runtime: Runtime,
    folder: Path | None,
    output: Path | None,
) -> None:
    """Measure the bundled ledger alone, beside sysbench, and beside sysbench with QiOi.

    Takes under four minutes, runs for real, and leaves only the results behind, also after ctrl-C.
    """
    options = DemoOptions(sysbench, law, rate, threshold, duration, warmup, directory=folder or demo_directory())
    options = replace(options, lab=replace(options.lab, mode=mode, base_port=base_port, runtime=runtime))
    directory = (output or Path("results") / time.strftime("%Y%m%d-%H%M%S")).resolve()
    console = Console()
    with one_line_errors(directory, options.directory):
        needs_plots()
        make_empty_folder(directory)
        result = measure(lambda progress: Demo(options, directory, progress), console)
        report = write_results(result, directory)
    tell(result, report, console)


def tell(result: DemoResult, report: Path, console: Console) -> None:
    """Print the result."""
    console.print(as_table(result))
    console.print(f"ledgers in {result.files}", highlight=False, markup=False)
    for note in noise_notes(result.arms, result.machine.cores):
        console.print(f"note: {note}", style="yellow", highlight=False)
    console.print("Ratios are against alone; sysbench's is the part of its due that it got.", style="dim")
    console.print(f"threshold {explain_threshold(result)}; law {result.options.law}", highlight=False)
    console.print(f"report: {report}", highlight=False, markup=False, soft_wrap=True)


def measure(make: Callable[[Callable[[str, float, float], None]], Demo], console: Console) -> DemoResult:
    """Run a demo behind a progress bar; away from a terminal, a line per step."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(elapsed_when_finished=True))
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        last = ""

        def progress(label: str, done: float, total: float) -> None:
            nonlocal last
            if label != last and not console.is_terminal:
                console.print(f"{label} ({total - done:.0f} s left)", highlight=False)
            last = label
            bar.update(task, description=label, completed=done, total=total)

        result = make(progress).run()
        bar.update(task, description="done", completed=1, total=1)
    return result


def as_table(result: DemoResult) -> Table:
    """Give the final table for a terminal."""
    options = result.options
    title = f"{options.lab.mode} mode, {result.rate:.0f} tps offered, {options.sysbench} sysbench, law {options.law}"
    table = Table(title=title, title_justify="left", header_style="bold", box=None, padding=(0, 1))
    table.add_column("", no_wrap=True)
    for index, arm in enumerate(result.arms):
        table.add_column(arm.title, justify="right", min_width=9)
        if index:
            table.add_column("", justify="right", min_width=6)
    for row in build_rows(result.arms, result.machine.cores):
        table.add_row(*spell(row))
    return table


def spell(row: Row) -> list[str]:
    """Give one line with rich's markup; from the second arm on, each has a column for its ratio."""
    if row.heading:
        return [f"[bold]{row.label}[/]"]
    cells = [row.label]
    for index, entry in enumerate(row.entries):
        cells.append(entry.value)
        if index:
            cells.append(f"[{COLOURS.get(entry.verdict, 'dim')}]{entry.ratio}[/]")
    return cells
