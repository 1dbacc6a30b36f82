"""What the bundled ledger does: its speed, its ways to order, and its leader's end, as rows and columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench_ordering import Repeat, of_one_dead, read_repeats

from published.readers import Figures, OneFolder, Values, add, most_taken, rows_of
from published.record import Column, Form, Row
from qioi.experiment.calibration import Calibration
from qioi.lab.figures import quotient

LEDGER = (
    Column("p50", "1 client: p50", Form.MILLISECONDS),
    Column("p99", "p99", Form.MILLISECONDS),
    Column("p50_floors", "p50 in signature floors", Form.NUMBER),
    Column("tps", "128 clients: tps", Form.COUNT),
    Column("p95", "p95", Form.MILLISECONDS),
    Column("cpu", "CPU per transaction", Form.MILLISECONDS),
    Column("cpu_floors", "CPU in signature floors", Form.NUMBER),
    Column("used", "tps, of what the CPUs could do at that", Form.PERCENT),
)


@OneFolder
def ledger(folder: Path, speed: Sequence[Calibration]) -> Figures:
    """Read bench_ledger.py's runs."""
    document: dict[str, Any] = json.loads((folder / "ledger.json").read_text(encoding="utf-8"))
    floor = sum(one.signature_us for one in speed) / len(speed) / 1000
    cores = int(document["machine"]["cores"])
    rows = []
    for name, runs in document["runs"].items():
        one, many = runs["one"], runs["many"]
        values = {
            "p50": tuple(run["p50"] for run in one),
            "p99": tuple(run["p99"] for run in one),
            "p50_floors": tuple(run["p50"] / floor for run in one),
            "tps": tuple(run["throughput"] for run in many),
            "p95": tuple(run["p95"] for run in many),
            "cpu": tuple(run["cpu_per_tx"] for run in many),
            "cpu_floors": tuple(run["cpu_per_tx"] / floor for run in many),
            "used": tuple(run["throughput"] * run["cpu_per_tx"] / 1000 / cores for run in many),
        }
        rows.append(Row(name.split()[0], name, values))
    return Figures(LEDGER, tuple(rows))


ORDERING = (
    Column("tps", "tps", Form.COUNT),
    Column("tps_to_raft", "to raft", Form.PERCENT),
    Column("p50", "p50", Form.MILLISECONDS),
    Column("p50_to_raft", "to raft", Form.TIMES),
    Column("order", "ordering", Form.MILLISECONDS),
    Column("order_to_raft", "to raft", Form.TIMES),
    Column("cpu", "CPU per transaction", Form.MILLISECONDS),
    Column("cpu_to_raft", "to raft", Form.TIMES),
    Column("orderers", "of it the orderers", Form.MILLISECONDS),
    Column("success", "submit to SUCCESS", Form.MILLISECONDS),
    Column("left", "tps of all alive, the dead one's CPU taken out", Form.PERCENT),
)
#: The setting of which a quarter of the orderers is dead, and the loads that use the cores up.
ONE_DEAD, BUSY = "pbft, one dead", ("many", "peak")
LOAD_TITLES = {"one": "1 client", "many": "many clients", "peak": "peak"}


@OneFolder
def ordering(folder: Path, _speed: Sequence[Calibration]) -> Figures:
    """Read bench_ordering.py's repeats. Each ratio is to the same repeat's raft."""
    file = folder / "ordering.json"
    repeats, cores = read_repeats(file), int(json.loads(file.read_text(encoding="utf-8"))["machine"]["cores"])
    kinds = dict.fromkeys((load, name) for one in repeats for name, loads in one.figures.items() for load in loads)
    apart = most_taken(
        (number, each.others + each.steal * cores)
        for number, one in enumerate(repeats, 1)
        for loads in one.figures.values()
        for each in loads.values()
    )
    found: Values = {}
    for one in repeats:
        for load, name in kinds:
            add(found, f"{load}-{name.replace(',', '').replace(' ', '-')}", ordering_values(one, load, name))
    titles = {key: f"{LOAD_TITLES[load]}, {name}" for key, (load, name) in zip(found, kinds, strict=True)}
    return Figures(ORDERING, rows_of(found, titles.__getitem__), tuple(apart))


def ordering_values(repeat: Repeat, load: str, name: str) -> dict[str, float | None]:
    """Give the values of a way to order under a load; none where it was not measured."""
    own, raft = (repeat.figures.get(each, {}).get(load) for each in (name, "raft"))
    if own is None:
        return dict.fromkeys((column.key for column in ORDERING), None)

    def to_raft(quantity: str) -> float | None:
        return quotient(getattr(own, quantity), getattr(raft, quantity)) if raft is not None else None

    return {
        "tps": own.throughput,
        "tps_to_raft": to_raft("throughput"),
        "p50": own.p50,
        "p50_to_raft": to_raft("p50"),
        "order": own.order,
        "order_to_raft": to_raft("order"),
        "cpu": own.cpu_per_tx,
        "cpu_to_raft": to_raft("cpu_per_tx"),
        "orderers": own.cpu["orderers"],
        "success": own.success,
        "left": of_one_dead(repeat, load) if name == ONE_DEAD and load in BUSY else None,
    }


LEADER = (
    Column("back", "commits again after", Form.SECONDS),
    Column("longest", "longest answer", Form.SECONDS),
    Column("failed", "failed", Form.COUNT),
)


@OneFolder
def leader(folder: Path, _speed: Sequence[Calibration]) -> Figures:
    """Read bench_leader.py's outages. One that did not end while it was waited for has no value."""
    found: Values = {}
    for one in json.loads((folder / "leader.json").read_text(encoding="utf-8"))["outages"]:
        add(found, f"{one['ordered_by']}-{one['how']}", {c.key: one[c.key] for c in LEADER})
    return Figures(LEADER, rows_of(found, lambda key: "{}, its leader {}".format(*key.split("-"))))
