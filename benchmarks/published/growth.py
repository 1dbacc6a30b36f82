"""How a cost grows, as the rows and columns of a record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench_growth import exponent

from published.readers import Figures, Reader, Values, add, rows_of
from published.record import Column, Form
from qioi.experiment.calibration import Calibration


class Cost(NamedTuple):
    """One cost: its column, its name in growth.json, and what one of that is in the column's unit."""

    key: str
    field: str
    title: str
    form: Form
    unit: float = 1.0


class Growth(NamedTuple):
    """What grows: its costs, and by kind of growth what its sizes count."""

    costs: tuple[Cost, ...]
    titles: Mapping[str, str]


DAEMON = Growth(
    (
        Cost("cpu", "cpu_percent", "CPU, of one core", Form.PERCENT, 0.01),
        Cost("memory", "rss_mb", "memory, MB", Form.NUMBER),
    ),
    {
        "components": "components",
        "threads": "threads of each of 100 components",
        "channels": "channels of each of 48 components",
        "lines": "lines a second of each of 36 peers' logs",
    },
)
LEDGER = Growth(
    (
        Cost("cpu", "cpu_per_tx", "CPU a transaction", Form.MILLISECONDS, 1000),
        Cost("memory", "rss_mb", "memory, MB", Form.NUMBER),
        Cost("tps", "tps", "tps", Form.COUNT),
    ),
    {
        "peers": "peers",
        "orderers": "orderers",
        "channels": "channels",
        "value": "bytes of a value",
        "clients": "clients",
        "keys": "keys of the state",
    },
)
LENGTH = Growth(
    (
        Cost("start", "start_s", "until it serves", Form.SECONDS),
        Cost("memory", "rss_mb", "memory, MB", Form.NUMBER),
        Cost("disk", "disk_mb", "disk, MB", Form.NUMBER),
    ),
    {"length": "transactions"},
)
KUBERNETES = Growth(
    (
        Cost("requests", "requests", "requests a second", Form.NUMBER),
        Cost("changes", "changes", "changes sent a second", Form.NUMBER),
        Cost("object", "object_kb", "largest policy, KB", Form.NUMBER),
        Cost("put", "put_kb", "KB a second that etcd keeps", Form.NUMBER),
        Cost("server", "server_cpu", "API server, of one core", Form.PERCENT),
        Cost("etcd", "etcd_cpu", "etcd, of one core", Form.PERCENT),
        Cost("node", "node_cpu", "a node's part, of one core", Form.PERCENT),
    ),
    {"nodes": "nodes, four of them to a policy", "policy": "nodes, all of one policy"},
)


def growth(of: Growth) -> Reader:
    """Make the reader of growth.json: a folder for each repeat, or several in one file, as a list.

    Ratios and exponents are taken within a repeat. A kind of growth has its exponents in the row of its largest size.
    """

    def read(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
        found: Values = {}
        for folder in folders:
            told = json.loads((folder / "growth.json").read_text(encoding="utf-8"))
            for repeat in told if isinstance(told, list) else [told]:
                for kind, sizes in repeat.items():
                    for size in sizes:
                        add(found, f"{kind}-{size}", values_of(of.costs, sizes, size))
        return Figures(tuple(columns(of.costs)), rows_of(found, lambda key: title(of.titles, key)))

    return read


def columns(costs: Sequence[Cost]) -> list[Column]:
    """Give each cost's column, and beside it those of its ratio to the smallest size, and of its exponent."""
    return [
        column
        for cost in costs
        for column in (
            Column(cost.key, cost.title, cost.form),
            Column(f"{cost.key}_to_least", "to the smallest", Form.TIMES),
            Column(f"{cost.key}_exponent", "exponent", Form.NUMBER),
        )
    ]


def values_of(costs: Sequence[Cost], sizes: Mapping[str, Mapping[str, float]], size: str) -> dict[str, float | None]:
    """Give one size's values, of one repeat whose costs by size are given."""
    values: dict[str, float | None] = {}
    for cost in costs:
        points = sorted((float(one), cost.unit * found[cost.field]) for one, found in sizes.items())
        its = dict(points)[float(size)]
        values[cost.key] = its
        least = points[0][1]
        values[f"{cost.key}_to_least"] = its / least if least else None
        largest = float(size) == points[-1][0] and all(value > 0 for _, value in points)
        values[f"{cost.key}_exponent"] = exponent(points) if largest else None
    return values


def title(titles: Mapping[str, str], key: str) -> str:
    """Name a size for a reader."""
    kind, size = key.split("-")
    return f"{int(size):,} {titles[kind]}"
