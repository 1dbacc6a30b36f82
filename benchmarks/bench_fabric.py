#!/usr/bin/env python3
"""bench_laws.py on blocks of 10 transactions or 2 s, as Fabric's own test network has them.

At what Fabric does on a host of few cores, the timer alone would cut blocks of hundreds: all wait for it, and a latency
says little of what neighbours do. --fabric is real Hyperledger Fabric; without it the bundled ledger runs as Fabric's
own processes do. All that is not said here goes to bench_laws.py.

    python benchmarks/bench_fabric.py [--fabric DIR] [--messages 10] [OPTIONS OF bench_laws.py]
"""

from __future__ import annotations

from pathlib import Path

import bench_laws
import click
from lab_bench import Place, placed


@click.command(context_settings={"ignore_unknown_options": True})
@placed("fabric")
@click.option(
    "--fabric",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Run real Hyperledger Fabric from this folder of its binaries.",
)
@click.option("--messages", type=click.IntRange(1), default=10, show_default=True, help="Transactions of a block.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(place: Place, fabric: Path | None, messages: int, options: tuple[str, ...]) -> None:
    """Bring the network up, and measure the laws on it."""
    system, extra = ("fabric", ()) if fabric else ("ledger", ("--like-fabric",))
    blocks = ("--max-message-count", str(messages))
    with place.network(extra=(*extra, *blocks), system=system, binaries=fabric) as (lab, _):
        there = ("--up", str(lab.directory), "--output", str(place.results))
        bench_laws.main([*there, *options], standalone_mode=False)


if __name__ == "__main__":
    main()
