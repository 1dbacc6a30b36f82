#!/usr/bin/env python3
"""How the ledger's cost grows with its parts: peers, orderers, channels, bytes of a value, clients, keys.

    python benchmarks/bench_growth_ledger.py [--over peers ...] [--duration 6] [--output DIR]

Each kind of growth has sizes of its own, and everything else stays as it is: two peers, three Raft orderers, one
channel, 1 KB writes, 32 closed-loop clients, stream mode, TLS, durable. Over keys, 256 clients first fill the state
with values of 100 bytes, and go on with new keys while it is measured. Every size has a network of its own. CPU is
user+sys of all nodes, without the clients, per committed transaction; memory is what the nodes have resident at the end
of the load.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click
import psutil

from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.options import LabOptions
from qioi.lab.signals import ending_signals_interrupt, uninterrupted
from qioi.processes.cgroups import Group
from qioi.processes.errors import LabError

POLICY = "OR('Org1MSP.peer','Org2MSP.peer')"
WARMUP = 2.0
#: Seconds of load after which the keys are counted while a state is filled.
FILLING = 5.0


@dataclass(frozen=True)
class Shape:
    """A network and its load: ``value`` in bytes, ``clients`` over all channels; ``keys`` before it is measured."""

    peers: int = 2
    orderers: int = 3
    channels: int = 1
    value: int = 1024
    clients: int = 32
    keys: int = 0


BASE = Shape()
#: By kind of growth: sizes, and the shape of each.
GROWTH = {
    "peers": {size: replace(BASE, peers=size) for size in (2, 6, 12, 20)},
    "orderers": {size: replace(BASE, orderers=size) for size in (1, 3, 5, 9)},
    "channels": {size: replace(BASE, channels=size) for size in (1, 4, 16)},
    "value": {size: replace(BASE, value=size) for size in (64, 1024, 16_384, 131_072)},
    "clients": {size: replace(BASE, clients=size) for size in (1, 32, 256, 1024)},
    "keys": {size: replace(BASE, value=100, clients=256, keys=size) for size in (10_000, 100_000, 300_000)},
}


def measure(lab: Lab, shape: Shape, duration: float, base_port: int, folder: Path) -> dict[str, float]:
    """Load a fresh network on all of its channels at once; CPU in seconds per transaction, memory in MB."""
    channels = tuple(f"channel{number}" for number in range(shape.channels))
    options = LabOptions(
        peers_per_org=shape.peers // 2,
        orderers=shape.orderers,
        channels=channels,
        base_port=base_port,
        extra=("--chaincode", f"kv={POLICY}"),
    )
    lab.up(options, die_with_parent=True)
    try:
        fill(lab, shape, channels[0], made(folder / "fill"))
        groups = [lab.tree.group(node.name) for node in lab.network().nodes]
        with ExitStack() as running:
            runs = [
                running.enter_context(LoadRun(lab, plan(shape, channel, duration), made(folder / channel)))
                for channel in channels
            ]
            used = [(time.time(), cpu_seconds(groups))]
            while any([run.running() for run in runs]):
                lab.check()
                time.sleep(0.1)
                used.append((time.time(), cpu_seconds(groups)))
            results = [run.result() for run in runs]
        tps = sum(result.figures.throughput for result in results)
        if not tps:
            raise LabError(f"{shape}: nothing was committed")
        window = max(result.start for result in results), min(result.end for result in results)
        return {"cpu_per_tx": rate(used, window) / tps, "rss_mb": resident(groups), "tps": tps}
    finally:
        with uninterrupted():
            lab.down()


def cpu_seconds(groups: list[Group]) -> float:
    """Give the CPU time that the processes in these groups have used."""
    return sum(group.cpu_seconds() for group in groups)


def rate(used: list[tuple[float, float]], window: tuple[float, float]) -> float:
    """Give the CPUs that were used in a window (epoch seconds), of looks at a clock and at the CPU time until then."""
    (began, first), (ended, last) = (min(used, key=lambda look: abs(look[0] - end)) for end in window)
    return (last - first) / (ended - began)


def fill(lab: Lab, shape: Shape, channel: str, folder: Path) -> None:
    """Write new keys until the channel has as many as the shape wants, or a little more.

    A warm-up would write some that are not counted.
    """
    keys = 0
    while keys < shape.keys:
        with LoadRun(lab, replace(plan(shape, channel, FILLING), warmup=0.0), folder) as run:
            written = run.wait().figures.committed
        if not written:
            raise LabError(f"{shape}: nothing was committed")
        keys += written


def plan(shape: Shape, channel: str, duration: float) -> LoadPlan:
    """Give a channel its part of the clients; every write makes a key of its own where keys are what grows."""
    clients = max(1, shape.clients // shape.channels)
    workload = "insert" if shape.keys else "put"
    extra = ("--chaincode", "kv", "--workload", workload, "--channel", channel, "--value-size", str(shape.value))
    return LoadPlan(duration, WARMUP, clients=clients, extra=extra)


def made(folder: Path) -> Path:
    """Make a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def resident(groups: list[Group]) -> float:
    """Give the resident memory of the processes in these groups, in MB."""
    return sum(psutil.Process(pid).memory_info().rss for group in groups for pid in group.pids()) / 1e6


@click.command()
@click.option("--over", "kinds", type=click.Choice(list(GROWTH)), multiple=True, default=list(GROWTH))
@click.option("--duration", type=float, default=6.0, show_default=True, help="Seconds measured per size.")
@click.option("--base-port", type=int, default=18_000, show_default=True)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
def main(kinds: tuple[str, ...], duration: float, base_port: int, output: Path | None) -> None:
    """Measure, and write growth.json."""
    directory = (output or Path("results") / f"growth-ledger-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[int, dict[str, float]]] = {}
    measured: dict[Shape, dict[str, float]] = {}  # kinds of growth have a shape in common
    try:
        with ending_signals_interrupt(), tempfile.TemporaryDirectory(dir=directory) as folder:
            lab = Lab(Path(folder) / "lab")
            for kind in kinds:
                for size, shape in GROWTH[kind].items():
                    if shape not in measured:
                        measured[shape] = measure(lab, shape, duration, base_port, Path(folder))
                    one = measured[shape]
                    found.setdefault(kind, {})[size] = one
                    click.echo(
                        f"{kind} {size}: {1000 * one['cpu_per_tx']:.2f} ms of CPU per transaction, "
                        f"{one['rss_mb']:.0f} MB, {one['tps']:.0f} tps"
                    )
    except LabError as error:
        raise click.ClickException(str(error)) from error
    (directory / "growth.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
