#!/usr/bin/env python3
"""How a peer's start, memory and disk grow with the length of its ledger.

One ledger is made longer and longer by the peer's own pipeline, with really signed transactions of 100 bytes that
update 100,000 keys (ledger/test/fill). At each length the peer is started after an orderly stop until it serves, with
the ledger's files dropped from the page cache. Ten million take some 17 minutes, and 31 GB of disk meanwhile.

    python benchmarks/bench_growth_length.py [--length 10000 ...] [--starts 3] [--output DIR]
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

import click
from bench_restart import Peer, fill, make

from qioi.lab.network import find_binary
from qioi.lab.signals import ending_signals_interrupt

LENGTHS = (10_000, 100_000, 1_000_000, 10_000_000)
KEYS = 100_000
VALUE = 100  # bytes
#: Bytes of disk that a transaction takes, rounded up.
EACH = 3_100


def lacks(folder: Path, length: int = max(LENGTHS)) -> str | None:
    """Say why a ledger of this length can't stand in a folder, ``None`` if it can."""
    room, needed = shutil.disk_usage(folder).free, length * EACH
    if room >= needed:
        return None
    return f"{folder}: {room / 1e9:.1f} GB free: accepted is {needed / 1e9:.1f} GB, for {length:,} transactions"


@click.command()
@click.option("--length", "lengths", type=click.IntRange(1), multiple=True, default=LENGTHS, show_default=True)
@click.option("--starts", type=click.IntRange(1), default=3, show_default=True, help="At each length.")
@click.option("--base-port", type=int, default=30_100, show_default=True)
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
@ending_signals_interrupt()
def main(lengths: tuple[int, ...], starts: int, base_port: int, output: Path | None) -> None:
    """Measure, and write growth.json."""
    directory = (output or Path("results") / f"growth-length-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if problem := lacks(directory, max(lengths)):
        raise click.ClickException(problem)
    binary = find_binary()
    found: list[dict[int, dict[str, float]]] = [{} for _ in range(starts)]
    with tempfile.TemporaryDirectory(dir=directory) as text:
        folder = Path(text)
        network = folder / "network"
        make(network, binary, base_port)
        peer = Peer(network.resolve(), binary)
        filled = 0
        for length in sorted(lengths):
            fill(network, length - filled, KEYS, VALUE, folder)
            filled = length
            for repeat in found:
                begun = peer.start()
                one = {
                    "start_s": begun.served,
                    "rss_mb": begun.memory / 1e6,
                    "disk_mb": sum(one.stat().st_size for one in peer.ledger.rglob("*") if one.is_file()) / 1e6,
                }
                repeat[length] = one
                click.echo(
                    f"{length:,} transactions: serves after {one['start_s']:.2f} s with {one['rss_mb']:.0f} MB, "
                    f"{one['disk_mb']:,.0f} MB on disk"
                )
    (directory / "growth.json").write_text(
        json.dumps([{"length": repeat} for repeat in found], indent=2) + "\n", encoding="utf-8"
    )
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
