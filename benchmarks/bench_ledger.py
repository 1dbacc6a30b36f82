#!/usr/bin/env python3
"""How fast the bundled ledger is: 3 Raft orderers, 2 peers, 1 KB writes, durable, TLS on.

Every repeat brings up a network of its own per setting and measures it with one closed-loop client and with
many; the settings take turns inside a repeat. CPU is user+sys of every process, the client's included, per
committed transaction of the window with many clients: on shared cores it says more than wall time.

    python benchmarks/bench_ledger.py [--repeats 3] [--clients 128] [--duration 12]
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from bench_ordering import nearest, watch

from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.machine import machine
from qioi.lab.options import LabOptions
from qioi.lab.signals import ending_signals_interrupt
from qioi.processes.errors import LabError

POLICY = "OR('Org1MSP.peer','Org2MSP.peer')"
KV = ("--chaincode", "kv")
WARMUP = 3.0


@dataclass(frozen=True)
class Setting:
    """A way to order: stream mode, or Fabric's blocks."""

    name: str
    flags: tuple[str, ...]


SETTINGS = (
    Setting("stream", ("--mode", "stream")),
    Setting("block 500 / 2 s", ("--mode", "block")),
)


@dataclass(frozen=True)
class Figures:
    """Latency in ms; CPU in ms per committed transaction, of all processes together."""

    p50: float
    p95: float
    p99: float
    throughput: float
    cpu_per_tx: float


def measure(lab: Lab, setting: Setting, plan: LoadPlan, base_port: int, folder: Path) -> Figures:
    """Run one load on a fresh network."""
    options = LabOptions(peers_per_org=1, base_port=base_port, extra=("--chaincode", f"kv={POLICY}", *setting.flags))
    lab.up(options, die_with_parent=True)
    try:
        with LoadRun(lab, plan, folder) as run:
            looks = watch(lab, run)
            result = run.result()
        first, last = nearest(looks, result.start), nearest(looks, result.end)
        used = sum(last.cpu.values()) - sum(first.cpu.values())
        found = result.figures
        committed = found.throughput * (last.machine.time - first.machine.time)
        return Figures(found.p50, found.p95, found.p99, found.throughput, 1000 * used / committed)
    finally:
        lab.down()


def middle(values: Sequence[float], digits: int = 1) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def table(found: dict[str, dict[str, list[Figures]]]) -> str:
    """Write the medians as a table."""
    lines = [
        "| | 1 client: p50 ms | p99 ms | many clients: tps | p50 ms | p95 ms | CPU ms per transaction |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, runs in found.items():
        one, many = runs["one"], runs["many"]
        cells = (
            name,
            middle([each.p50 for each in one], 2),
            middle([each.p99 for each in one], 2),
            middle([each.throughput for each in many], 0),
            middle([each.p50 for each in many]),
            middle([each.p95 for each in many]),
            middle([each.cpu_per_tx for each in many], 2),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--clients", type=click.IntRange(1), default=128, show_default=True, help="The many.")
@click.option("--duration", type=float, default=12.0, show_default=True, help="Seconds measured per run.")
@click.option("--base-port", type=int, default=18_000, show_default=True)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
def main(repeats: int, clients: int, duration: float, base_port: int, output: Path | None) -> None:
    """Measure, write ledger.json and ledger.md, and print the table."""
    directory = (output or Path("results") / f"ledger-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    host = machine()
    found: dict[str, dict[str, list[Figures]]] = {each.name: {"one": [], "many": []} for each in SETTINGS}
    plans = {
        "one": LoadPlan(duration, WARMUP, clients=1, extra=KV),
        "many": LoadPlan(duration, WARMUP, clients=clients, extra=KV),
    }
    try:
        with ending_signals_interrupt(), tempfile.TemporaryDirectory(dir=directory) as folder:
            lab = Lab(Path(folder) / "lab")
            for number in range(repeats):
                for setting in SETTINGS:
                    for kind, plan in plans.items():
                        figures = measure(lab, setting, plan, base_port, Path(folder))
                        found[setting.name][kind].append(figures)
                        click.echo(
                            f"repeat {number + 1}, {setting.name}, {plan.clients} clients: "
                            f"{figures.throughput:.0f} tps, p50 {figures.p50:.2f} ms, p99 {figures.p99:.2f} ms, "
                            f"CPU {figures.cpu_per_tx:.2f} ms per transaction"
                        )
    except LabError as error:
        raise click.ClickException(str(error)) from error
    runs = {
        name: {kind: [asdict(one) for one in each] for kind, each in kinds.items()} for name, kinds in found.items()
    }
    document = {"machine": asdict(host), "clients": clients, "runs": runs}
    (directory / "ledger.json").write_text(json.dumps(document, indent=2, default=str) + "\n", encoding="utf-8")
    (directory / "ledger.md").write_text(table(found), encoding="utf-8")
    click.echo(table(found))
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
