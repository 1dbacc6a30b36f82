#!/usr/bin/env python3
"""How many transactions fail when they contend: YCSB-like load, stream mode beside block mode (500 / 2 s).

Half of the transactions read one key, half read and write one (1 KB), all over a few hot keys, chosen evenly. Reads are
ordered and validated like the rest, as Fabric's clients submit them. A transaction fails when another one has written
its key between its simulation and its validation, so what counts is how long that takes: in block mode at least until
the block is cut.

3 Raft orderers, 2 peers, durable, TLS on. In each repeat, each mode gets a network of its own. For each number of keys
its peak is measured with many closed-loop clients (all that it commits in a second, in conflict or not), and then loads
in an open loop at shares of that peak.

    python benchmarks/bench_goodput.py [--repeats 1] [--duration 6]
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.machine import machine
from qioi.lab.options import LabOptions
from qioi.lab.signals import ending_signals_interrupt
from qioi.processes.errors import LabError

POLICY = "OR('Org1MSP.peer','Org2MSP.peer')"
CONFLICT = "MVCC_READ_CONFLICT"
WARMUP = 2.0


@dataclass(frozen=True)
class Mode:
    """A way to order, and the closed-loop clients that drive it to its peak: blocks want to be filled."""

    name: str
    flags: tuple[str, ...]
    clients: int


MODES = (
    Mode("stream", ("--mode", "stream"), 128),
    Mode("block 500 / 2 s", ("--mode", "block"), 1500),
)
KEYS = (1_000, 10_000)
SHARES = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Outcome:
    """One load. Shares are of the transactions that were due; latency in ms, of the valid ones."""

    mode: str
    keys: int
    share: float
    peak: float
    offered: float
    goodput: float
    conflicts: float
    others: float
    p50: float
    p95: float
    failures: dict[str, int]


def plan(keys: int, duration: float, *, rate: float | None = None, clients: int | None = None) -> LoadPlan:
    """Format a load over so many keys."""
    extra = ("--chaincode", "kv", "--workload", "ycsb50", "--accounts", str(keys))
    return LoadPlan(duration, WARMUP, rate=rate, clients=clients, extra=extra)


def processed(document: dict[str, Any]) -> float:
    """Transactions per second that were committed, as valid or not."""
    refused = sum(row["count"] for row in document["failures"] if row["stage"] == "commit")
    return float((document["committed"] + refused) / document["seconds"])


def outcome(mode: str, keys: int, share: float, peak: float, document: dict[str, Any]) -> Outcome:
    """Read the client's JSON."""
    failures = {f"{row['stage']} {row['code']}": int(row["count"]) for row in document["failures"]}
    if document["unsent"]:
        failures["not sent"] = int(document["unsent"])
    due = document["sent"] + document["unsent"]
    conflicts = failures.get(f"commit {CONFLICT}", 0)
    return Outcome(
        mode=mode,
        keys=keys,
        share=share,
        peak=peak,
        offered=float(document["intended_rate"]),
        goodput=document["committed"] / document["seconds"],
        conflicts=conflicts / due,
        others=(sum(failures.values()) - conflicts) / due,
        p50=float(document["latency_ms"]["p50"]),
        p95=float(document["latency_ms"]["p95"]),
        failures=failures,
    )


def measure(lab: Lab, mode: Mode, duration: float, base_port: int, folder: Path) -> Iterator[Outcome]:
    """Bring a network up and tell what became of each load."""

    def load(keys: int, rate: float | None = None, clients: int | None = None) -> dict[str, Any]:
        with LoadRun(lab, plan(keys, duration, rate=rate, clients=clients), folder) as run:
            run.wait()
        document: dict[str, Any] = json.loads((folder / "load.json").read_text(encoding="utf-8"))
        return document

    lab.up(
        LabOptions(peers_per_org=1, base_port=base_port, extra=("--chaincode", f"kv={POLICY}", *mode.flags)),
        die_with_parent=True,
    )
    try:
        for keys in KEYS:
            peak = processed(load(keys, clients=mode.clients))
            for share in SHARES:
                yield outcome(mode.name, keys, share, peak, load(keys, rate=share * peak))
    finally:
        lab.down()


def middle(outcomes: Iterable[Outcome], pick: Callable[[Outcome], float], digits: int) -> str:
    """Median, and least and most where there are several."""
    values = [pick(each) for each in outcomes]
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def table(outcomes: list[Outcome]) -> str:
    """Write the medians as a table."""
    lines = [
        "| | hot keys | peak tps | of it | offered tps | goodput tps | in conflict % | otherwise % | p50 ms | p95 ms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for mode in MODES:
        for keys in KEYS:
            for share in SHARES:
                same = [each for each in outcomes if (each.mode, each.keys, each.share) == (mode.name, keys, share)]
                cells = (
                    mode.name,
                    f"{keys:,}",
                    middle(same, lambda each: each.peak, 0),
                    f"{share:.0%}",
                    middle(same, lambda each: each.offered, 0),
                    middle(same, lambda each: each.goodput, 0),
                    middle(same, lambda each: 100 * each.conflicts, 2),
                    middle(same, lambda each: 100 * each.others, 2),
                    middle(same, lambda each: each.p50, 1),
                    middle(same, lambda each: each.p95, 1),
                )
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True)
@click.option("--duration", type=float, default=6.0, show_default=True, help="Seconds measured per load.")
@click.option("--base-port", type=int, default=18_000, show_default=True)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
def main(repeats: int, duration: float, base_port: int, output: Path | None) -> None:
    """Measure, write goodput.json and goodput.md, and print the table."""
    directory = (output or Path("results") / f"goodput-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    host = machine()
    outcomes: list[Outcome] = []
    try:
        with ending_signals_interrupt(), tempfile.TemporaryDirectory(dir=directory) as folder:
            lab = Lab(Path(folder) / "lab")
            for number in range(repeats):
                for mode in MODES:
                    for found in measure(lab, mode, duration, base_port, Path(folder)):
                        outcomes.append(found)
                        click.echo(
                            f"repeat {number + 1}, {mode.name}, {found.keys} keys, {found.share:.0%}: "
                            f"{found.goodput:.0f} of {found.offered:.0f} tps, {found.conflicts:.2%} in conflict, "
                            f"{found.others:.2%} failed otherwise, p50 {found.p50:.1f} ms"
                        )
    except LabError as error:
        raise click.ClickException(str(error)) from error
    document = {"machine": asdict(host), "outcomes": [asdict(each) for each in outcomes]}
    (directory / "goodput.json").write_text(json.dumps(document, indent=2, default=str) + "\n", encoding="utf-8")
    (directory / "goodput.md").write_text(table(outcomes), encoding="utf-8")
    click.echo(table(outcomes))
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
