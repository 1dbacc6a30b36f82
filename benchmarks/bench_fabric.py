#!/usr/bin/env python3
"""bench_laws.py on blocks of 10 transactions or 2 s, as Fabric's own test network has them.

At what Fabric does on a host of few cores, the timer alone would cut blocks of hundreds: all wait for it, and a latency
says little of what neighbours do. --fabric is real Hyperledger Fabric; without it the bundled ledger runs as Fabric's
own processes do. It brings its network up itself; else its options are those of bench_laws.py.

    python benchmarks/bench_fabric.py [--fabric DIR] [--messages 10] [OPTIONS]
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from bench_laws import measure
from lab_bench import Place, placed
from laws_asked import Asked, asked


@click.command()
@placed("fabric")
@asked
@click.option(
    "--fabric",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Run real Hyperledger Fabric from this folder of its binaries.",
)
@click.option("--messages", type=click.IntRange(1), default=10, show_default=True, help="Transactions of a block.")
def main(place: Place, asked: Asked, fabric: Path | None, messages: int) -> None:
    """Bring the network up, and measure the laws on it."""
    system = "fabric" if fabric else "ledger"
    blocks = ("--max-message-count", str(messages))
    there = replace(place, name="laws")
    measure(there, asked, extra=blocks, system=system, binaries=fabric, like_fabric=not fabric)


if __name__ == "__main__":
    main()
