#!/usr/bin/env python3
"""How many transactions fail when they contend: YCSB-like load, stream mode beside block mode (500 / 2 s).

Half of the transactions read one key, half read and write one (1 KB), all over a few hot keys, chosen evenly. Reads are
ordered and validated like the rest, as Fabric's clients submit them. A transaction fails when another one has written
its key between its simulation and its validation, so what counts is how long that takes: in block mode at least until
the block is cut.

3 Raft orderers, 2 peers, durable, TLS on. In each repeat, each mode gets a network of its own: its peak is measured
with many closed-loop clients over keys that hardly meet, and then each load in an open loop at a share of that peak.

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

import click

from qioi.lab.errors import LabError
from qioi.lab.lab import Lab, LabOptions
from qioi.lab.load import LoadPlan, LoadRun, run_to_end
from qioi.lab.machine import machine
from qioi.lab.signals import ending_signals_interrupt

POLICY = "OR('Org1MSP.peer','Org2MSP.peer')"
CONFLICT = "MVCC_READ_CONFLICT"
#: Keys of the measurement of the peak: so many that two transactions hardly meet.
COLD_KEYS = 1_000_000
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
    offered: float
    goodput: float
    conflicts: float
    others: float
    p50: float
    p95: float
    failures: dict[str, int]


def plan(keys: int, duration: float, *, rate: float | None = None, clients: int | None = None) -> LoadPlan:
    """Spell a load over so many keys."""
    extra = ("--chaincode", "kv", "--workload", "ycsb50", "--accounts", str(keys))
    return LoadPlan(duration, WARMUP, rate=rate, clients=clients, extra=extra)


def outcome(mode: str, keys: int, share: float, document: dict[str, object]) -> Outcome:
    """Read the client's JSON."""
    rows = document["failures"]
    assert isinstance(rows, list)
    latency = document["latency_ms"]
    assert isinstance(latency, dict)
    failures = {f"{row['stage']} {row['code']}": int(row["count"]) for row in rows}
    unsent = int(str(document["unsent"]))
    if unsent:
        failures["not sent"] = unsent
    due = int(str(document["sent"])) + unsent
    conflicts = failures.get(f"commit {CONFLICT}", 0)
    return Outcome(
        mode=mode,
        keys=keys,
        share=share,
        offered=float(str(document["intended_rate"])),
        goodput=int(str(document["committed"])) / float(str(document["seconds"])),
        conflicts=conflicts / due,
        others=(sum(failures.values()) - conflicts) / due,
        p50=float(latency["p50"]),
        p95=float(latency["p95"]),
        failures=failures,
    )


def measure(lab: Lab, mode: Mode, duration: float, base_port: int, folder: Path) -> Iterator[float | Outcome]:
    """Bring a network up and give its peak, and then what became of each load."""
    lab.up(
        LabOptions(peers_per_org=1, base_port=base_port, extra=("--chaincode", f"kv={POLICY}", *mode.flags)),
        die_with_parent=True,
    )
    try:
        with LoadRun(lab, plan(COLD_KEYS, duration, clients=mode.clients), folder) as run:
            peak = run_to_end(run, lab).figures.throughput
        yield peak
        for keys in KEYS:
            for share in SHARES:
                with LoadRun(lab, plan(keys, duration, rate=share * peak), folder) as run:
                    run_to_end(run, lab)
                yield outcome(mode.name, keys, share, json.loads((folder / "load.json").read_text()))
    finally:
        lab.down()


def middle(outcomes: Iterable[Outcome], pick: Callable[[Outcome], float], digits: int) -> str:
    """Median, and least and most where there are several."""
    values = [pick(each) for each in outcomes]
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def table(peaks: dict[str, list[float]], outcomes: list[Outcome]) -> str:
    """Write the medians as a table."""
    lines = [
        "| | hot keys | of peak | offered tps | goodput tps | failed by conflict % | otherwise % | p50 ms | p95 ms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for mode in MODES:
        peak = f"{mode.name} (peak {statistics.median(peaks[mode.name]):.0f} tps)"
        for keys in KEYS:
            for share in SHARES:
                same = [each for each in outcomes if (each.mode, each.keys, each.share) == (mode.name, keys, share)]
                cells = (
                    peak,
                    f"{keys:,}",
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
    peaks: dict[str, list[float]] = {mode.name: [] for mode in MODES}
    outcomes: list[Outcome] = []
    try:
        with ending_signals_interrupt(), tempfile.TemporaryDirectory(dir=directory) as folder:
            lab = Lab(Path(folder) / "lab")
            for number in range(repeats):
                for mode in MODES:
                    for found in measure(lab, mode, duration, base_port, Path(folder)):
                        if isinstance(found, float):
                            peaks[mode.name].append(found)
                            click.echo(f"repeat {number + 1}, {mode.name}: peak {found:.0f} tps")
                            continue
                        outcomes.append(found)
                        click.echo(
                            f"repeat {number + 1}, {mode.name}, {found.keys} keys, {found.share:.0%}: "
                            f"{found.goodput:.0f} of {found.offered:.0f} tps, {found.conflicts:.2%} in conflict, "
                            f"{found.others:.2%} failed otherwise, p50 {found.p50:.1f} ms"
                        )
    except LabError as error:
        raise click.ClickException(str(error)) from error
    document = {"machine": asdict(host), "peaks": peaks, "outcomes": [asdict(each) for each in outcomes]}
    (directory / "goodput.json").write_text(json.dumps(document, indent=2, default=str) + "\n")
    (directory / "goodput.md").write_text(table(peaks, outcomes))
    click.echo(table(peaks, outcomes))
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
