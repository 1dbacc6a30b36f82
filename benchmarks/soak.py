#!/usr/bin/env python3
"""Offer the bundled ledger more than it can take, for an hour, and watch every node's memory: `make soak`.

Transactions come in an open loop at a rate far above what the network commits, over keys whose number stays the same,
so state does not grow; what does not fit is to be pushed back, not kept. After a warm-up each node's resident memory is
sampled; the soak fails when a node ends, when commits stop, or when memory has grown without bound.

One thing grows with the ledger by design: peers keep the ids of all transactions on disk, with filters that the kernel
maps into memory while there is room. So a peer is allowed their size for each transaction that came in between.

    python benchmarks/soak.py [--duration 3600] [--warmup 300] [--rate 4000]
"""

from __future__ import annotations

import csv
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import click
import psutil

from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadResult, LoadRun
from qioi.lab.machine import machine
from qioi.lab.options import LabOptions
from qioi.lab.signals import ending_signals_interrupt
from qioi.processes.errors import LabError

#: Seconds together in which nothing may be committed.
STALL = 30
POLICY = "OR('Org1MSP.peer','Org2MSP.peer')"
LOAD = ("--chaincode", "kv", "--workload", "put", "--accounts", "10000", "--value-size", "100")
#: Seconds between two looks at all nodes.
PERIOD = 1.0
#: Bytes that stay free: a full disk stops the peers, as it must.
RESERVE = 2 << 30
#: A collector lets the heap breathe: by a quarter, and where it is small by more.
BREATH, SMALL = 0.25, 32 << 20
#: Bytes that a peer may keep of each transaction: 2 in a filter and a tenth in an index of its file, and once more
#: while files are merged.
KEPT = 5
#: The part of the window, at either end, whose median counts.
END = 0.2


@dataclass(frozen=True)
class Look:
    """Resident memory of every node, in bytes, at one time."""

    time: float
    rss: dict[str, int]


@dataclass(frozen=True)
class Verdict:
    """What became of one node's memory; bytes."""

    node: str
    first: float
    last: float
    allowed: float

    @property
    def bounded(self) -> bool:
        """Whether it grew by no more than it may."""
        return self.last - self.first <= self.allowed


def judge(node: str, series: Sequence[int], transactions: int, kept: int) -> Verdict:
    """Compare both ends of a node's series; ``kept`` are the bytes that it may keep of each transaction."""
    part = max(1, int(len(series) * END))
    first, last = statistics.median(series[:part]), statistics.median(series[-part:])
    return Verdict(node, first, last, first * BREATH + SMALL + transactions * (1 - END) * kept)


def look(lab: Lab, names: Sequence[str]) -> Look:
    """Sample every node. One that has just ended is missing: the lab's own check says why."""
    rss = {}
    for name in names:
        try:
            rss[name] = sum(psutil.Process(pid).memory_info().rss for pid in lab.tree.group(name).pids())
        except psutil.NoSuchProcess:
            continue
    return Look(time.time(), rss)


def soak(lab: Lab, plan: LoadPlan, folder: Path) -> tuple[list[Look], LoadResult]:
    """Run the load to its end, looking once a period."""
    names = [node.name for node in lab.network().nodes]
    looks: list[Look] = []
    begun = told = time.monotonic()
    free = shutil.disk_usage(folder).free
    with LoadRun(lab, plan, folder) as run:
        while run.running():
            lab.check()
            elapsed = time.monotonic() - begun
            if elapsed > plan.warmup:
                used = free - shutil.disk_usage(folder).free
                check_disk(folder, used, elapsed, max(0.0, plan.warmup + plan.duration - elapsed))
            looks.append(look(lab, names))
            if time.monotonic() - told >= 30:
                told = time.monotonic()
                sizes = "  ".join(f"{name} {size >> 20}" for name, size in looks[-1].rss.items())
                click.echo(f"{looks[-1].time - looks[0].time:5.0f} s  MB: {sizes}")
            time.sleep(PERIOD)
        return looks, run.result()


def check_disk(folder: Path, used: int, elapsed: float, remaining: float) -> None:
    """End a soak that would fill the disk, by what it has written so far."""
    free, needed = shutil.disk_usage(folder).free, int(used / elapsed * remaining)
    if needed > free - RESERVE:
        most = elapsed + max(0.0, (free - RESERVE) * elapsed / max(used, 1))
        raise click.ClickException(
            f"{folder}: {needed / 2**30:.1f} GiB more are needed at this rate, {free / 2**30:.1f} GiB are free; "
            f"up to --duration {most:.0f} is accepted, or another folder in --output"
        )


def write(directory: Path, looks: Sequence[Look], result: LoadResult, verdicts: Sequence[Verdict]) -> None:
    """Keep everything that was seen."""
    names = sorted({name for each in looks for name in each.rss})
    with (directory / "soak.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["time", *names])
        table.writerows([f"{each.time:.1f}", *(each.rss.get(name, "") for name in names)] for each in looks)
    document = {
        "machine": asdict(machine()),
        "load": asdict(result.figures),
        "verdicts": [{**asdict(each), "bounded": each.bounded} for each in verdicts],
    }
    (directory / "soak.json").write_text(json.dumps(document, indent=2, default=str) + "\n", encoding="utf-8")


@click.command()
@click.option("--duration", type=click.FloatRange(30), default=3600.0, show_default=True, help="Seconds, in all.")
@click.option("--warmup", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds of it, unwatched.")
@click.option("--rate", type=click.FloatRange(1), default=4000.0, show_default=True, help="Transactions per second.")
@click.option("--base-port", type=int, default=18_000, show_default=True)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
def main(duration: float, warmup: float, rate: float, base_port: int, output: Path | None) -> None:
    """Overload a network, write soak.json and soak.csv, and fail when a node's memory grows without bound."""
    if warmup > duration / 2:
        raise click.BadParameter(f"{warmup:g} s of {duration:g} s: at most half is accepted", param_hint="--warmup")
    directory = (output or Path("results") / f"soak-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    options = LabOptions(peers_per_org=1, base_port=base_port, extra=("--chaincode", f"kv={POLICY}"))
    plan = LoadPlan(duration - warmup, warmup, rate=rate, extra=LOAD)
    try:
        with ending_signals_interrupt(), tempfile.TemporaryDirectory(dir=directory) as folder:
            lab = Lab(Path(folder) / "lab")
            lab.up(options, die_with_parent=True)
            try:
                peers = {node.name for node in lab.network().nodes if node.role == "peer"}
                looks, result = soak(lab, plan, Path(folder))
            finally:
                lab.down()
    except LabError as error:
        raise click.ClickException(str(error)) from error
    window = [each for each in looks if result.start <= each.time <= result.end]
    committed = result.figures.committed
    verdicts = [
        judge(name, [each.rss[name] for each in window if name in each.rss], committed, KEPT if name in peers else 0)
        for name in sorted(looks[0].rss)
    ]
    write(directory, looks, result, verdicts)
    click.echo(
        f"{rate:.0f} tps offered, {result.figures.throughput:.0f} tps committed, {committed} in "
        f"{result.end - result.start:.0f} s after the warm-up; memory in MB:"
    )
    for each in verdicts:
        state = "ok" if each.bounded else "GROWS WITHOUT BOUND"
        slope = (each.last - each.first) / max(1.0, committed * (1 - END))
        sizes = f"{each.first / 2**20:6.0f} -> {each.last / 2**20:6.0f}, at most +{each.allowed / 2**20:.0f}"
        sizes += f", {slope:+.0f} bytes a transaction"
        click.echo(f"  {each.node:24} {sizes}  {state}")
    click.echo(f"written to {directory}")
    empty = [tps == 0 for _, tps in result.throughput]
    longest = max((len(list(run)) for is_empty, run in groupby(empty) if is_empty), default=0)
    if sum(empty) > len(empty) / 10 or longest > STALL:
        click.echo(
            f"nothing was committed in {sum(empty)} of {len(empty)} seconds, {longest} of them together", err=True
        )
        sys.exit(1)
    if not all(each.bounded for each in verdicts):
        sys.exit(1)


if __name__ == "__main__":
    main()
