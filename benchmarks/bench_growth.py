#!/usr/bin/env python3
"""How the daemon's cost grows with what there is to watch: components, threads, channels, lines of logs.

    python benchmarks/bench_growth.py [--over threads ...] [--seconds 8] [--output DIR]

Each kind of growth has sizes of its own, and everything else stays as it is. The host of toy components is that of
bench_daemon.py. The exponent is the slope of the cost over the size, both as logarithms: 1 is growth in proportion, and
what the daemon costs in any case makes it less.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
from bench_daemon import Shape, measure

from qioi.lab.signals import ending_signals_interrupt

#: 100 components of 5 threads on two channels, a third of them peers with 40 lines of logs a second.
BASE = Shape(100, 5, 1.0, 4, noise=9)
#: By kind of growth: sizes, and the shape of each. Lines are those of one peer in a second.
GROWTH = {
    "components": {size: replace(BASE, components=size) for size in (12, 100, 400, 1000, 3000)},
    "threads": {size: replace(BASE, threads=size) for size in (1, 5, 30)},
    "channels": {size: replace(BASE, components=48, blocks=1, channels=size) for size in (1, 8, 64)},
    "lines": {size: replace(BASE, noise=size // 4 - 1) for size in (4, 40, 400)},
}


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Give the slope of values over sizes, both as logarithms."""
    sizes, values = zip(*points, strict=True)
    return statistics.linear_regression([math.log(one) for one in sizes], [math.log(one) for one in values]).slope


@click.command()
@click.option("--over", "kinds", type=click.Choice(list(GROWTH)), multiple=True, default=list(GROWTH))
@click.option("--seconds", type=float, default=8.0, show_default=True, help="Measured per size.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
@ending_signals_interrupt()
def main(kinds: tuple[str, ...], seconds: float, output: Path | None) -> None:
    """Measure, and write growth.json."""
    directory = (output or Path("results") / f"growth-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[int, dict[str, float]]] = {}
    measured: dict[Shape, dict[str, float]] = {}  # kinds of growth have a shape in common
    for kind in kinds:
        for size, shape in GROWTH[kind].items():
            if shape not in measured:
                with tempfile.TemporaryDirectory() as folder:
                    measured[shape] = measure(Path(folder), shape, seconds, None)
            one = measured[shape]
            found.setdefault(kind, {})[size] = one
            click.echo(f"{kind} {size}: {one['cpu_percent']:.2f} % of one core, {one['rss_mb']:.1f} MB")
    (directory / "growth.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
