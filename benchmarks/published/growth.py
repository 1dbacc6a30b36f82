"""How the daemon's cost grows, as the rows and columns of a record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench_growth import exponent

from published.readers import Figures, Values, add, rows_of
from published.record import Calibration, Column, Form
from qioi.lab.figures import quotient

GROWTH = (
    Column("cpu", "CPU, of one core", Form.PERCENT),
    Column("cpu_to_least", "to the smallest", Form.TIMES),
    Column("cpu_exponent", "exponent", Form.NUMBER),
    Column("memory", "memory, MB", Form.NUMBER),
    Column("memory_to_least", "to the smallest", Form.TIMES),
    Column("memory_exponent", "exponent", Form.NUMBER),
)
TITLES = {
    "components": "components",
    "threads": "threads of each of 100 components",
    "channels": "channels of each of 48 components",
    "lines": "lines a second of each of 36 peers' logs",
}


def growth(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
    """Read bench_growth.py's sizes: a folder for each repeat. Ratios and exponents are taken within a repeat.

    A kind of growth has its exponent in the row of its largest size.
    """
    found: Values = {}
    for folder in folders:
        for kind, sizes in json.loads((folder / "growth.json").read_text()).items():
            costs = {
                "cpu": {int(size): one["cpu_percent"] / 100 for size, one in sizes.items()},
                "memory": {int(size): one["rss_mb"] for size, one in sizes.items()},
            }
            for size in costs["cpu"]:
                values: dict[str, float | None] = {}
                for name, its in costs.items():
                    values[name] = its[size]
                    values[f"{name}_to_least"] = quotient(its[size], its[min(its)])
                    values[f"{name}_exponent"] = exponent(list(its.items())) if size == max(its) else None
                add(found, f"{kind}-{size}", values)
    return Figures(GROWTH, rows_of(found, title))


def title(key: str) -> str:
    """Name a size for a reader."""
    kind, size = key.split("-")
    return f"{int(size):,} {TITLES[kind]}"
