"""What QiOi's shares come to: a channel held to its T, and the least share that is enough, as rows and columns."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench_enough import Tried
from bench_enough import enough as least_share
from laws_figures import Row, ratio

from published.readers import Figures, Values, add, disturbed, rows_of
from published.record import Column, Form
from qioi.experiment.calibration import Calibration
from qioi.lab.figures import quotient

OWED = (
    Column("tps", "tps", Form.COUNT),
    Column("owed", "A to T", Form.TIMES),
    Column("p95", "p95", Form.MILLISECONDS),
    Column("left", "sysbench, of what is left by CPU", Form.PERCENT),
    Column("work", "sysbench, events/s", Form.COUNT),
    Column("moved", "widest move of a share", Form.PERCENT),
)
#: CPUs of which no part is worth a figure.
NOTHING_LEFT = 0.1
OWED_TITLES = {"alone": "alone", "nothing": "without QiOi", "fixed": "all nodes at 5,120 by hand"}


def owed(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
    """Read bench_owed.py's conditions: a folder for each repeat."""
    found: Values = {}
    seen: list[Row] = []
    for number, folder in enumerate(folders, 1):
        conditions = [
            (Row(**one["row"]), one) for one in json.loads((folder / "owed.json").read_text(encoding="utf-8"))["rows"]
        ]
        for row, one in conditions:
            values = {
                "tps": row.tps,
                "owed": one["owed"] and quotient(row.tps, one["owed"]),
                "p95": row.p95,
                "left": part_of_left(row, one["of_left"]),
                "work": row.events,
                "moved": row.movement if one["owed"] else None,
            }
            add(found, row.condition.rstrip("%"), values)
            seen.append(replace(row, repeat=number))
    return Figures(OWED, rows_of(found, owed_title), tuple(disturbed(seen)))


def part_of_left(row: Row, part: float | None) -> float | None:
    """Give the neighbours' part of the CPUs that are left, ``None`` where next to nothing is."""
    return part if not part or row.sysbench_cores / part > NOTHING_LEFT else None


def owed_title(key: str) -> str:
    """Name a condition of bench_owed.py."""
    before = key.removeprefix("alone before ")
    return OWED_TITLES.get(key) or (f"T = {key} % of that" if before == key else f"alone, before T = {before} %")


ENOUGH = (
    Column("tps", "tps", Form.COUNT),
    Column("p95", "p95", Form.MILLISECONDS),
    Column("slower", "p95 to alone", Form.TIMES),
    Column("share", "components' median share", Form.COUNT),
    Column("least", "least share by hand that does as well", Form.COUNT),
    Column("settled", "settled, of that", Form.TIMES),
    Column("work", "sysbench, events/s", Form.COUNT),
)


def enough(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
    """Read bench_enough.py's conditions: a folder for each repeat."""
    found: Values = {}
    seen: list[Row] = []
    for number, folder in enumerate(folders, 1):
        tried = [
            Tried(**{**one, "row": Row(**one["row"])})
            for one in json.loads((folder / "enough.json").read_text(encoding="utf-8"))["rows"]
        ]
        for one in tried:
            row, share = one.row, statistics.median(one.settled)
            beside = [each for each in tried if each.row.sysbench == row.sysbench]
            least = least_share(beside, row.p95) if row.sysbench and one.shares is None else None
            values = {
                "tps": row.tps,
                "p95": row.p95,
                "slower": ratio(row.p95, tried[0].row.p95),
                "share": share,
                "least": least,
                "settled": ratio(share, least),
                "work": row.events if row.sysbench else None,
            }
            add(found, row.condition, values)
            seen.append(replace(row, repeat=number))
    return Figures(ENOUGH, rows_of(found, share_title), tuple(disturbed(seen)))


def share_title(key: str) -> str:
    """Name a share by hand, or QiOi's, for a reader."""
    count, _, who = key.partition("-")
    if not who:
        return key
    return f"{count} sysbench, {f'{int(who):,} by hand' if who.isdigit() else who}"


TENANTS = (
    Column("alpha", "alpha, tps", Form.COUNT),
    Column("alpha_owed", "to its T", Form.TIMES),
    Column("beta", "beta, tps", Form.COUNT),
    Column("beta_owed", "to its T", Form.TIMES),
    Column("raised", "alpha's share, to beta's", Form.TIMES),
)
TENANTS_TITLES = {
    "nothing": "without QiOi",
    "adaptive": "alpha is owed 1.25 times that, beta half of it",
    "again": "without QiOi, afterwards",
}


def tenants(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
    """Read bench_tenants.py's conditions: a folder for each repeat."""
    found: Values = {}
    for folder in folders:
        for one in json.loads((folder / "tenants.json").read_text(encoding="utf-8"))["rows"]:
            values: dict[str, float | None] = {"raised": one["raised"]}
            for channel, tps in one["tps"].items():
                values |= {
                    channel: tps,
                    f"{channel}_owed": quotient(tps, one["owed"][channel]) if one["owed"] else None,
                }
            add(found, one["condition"], values)
    return Figures(TENANTS, rows_of(found, TENANTS_TITLES.__getitem__))
