"""What is kept of a run of bench_laws.py, and the tables that lay the laws side by side."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from qioi.lab.figures import ArmFigures, quotient
from qioi.lab.load import parse_result
from qioi.lab.machine import machine
from qioi.lab.result_table import milliseconds, percent, times
from qioi.model import DEFAULT_SHARES, Role

ALONE = "alone"
#: What an operator would set by hand on all components: what the paper's k = 4 reaches at most, and adaptive's ceiling.
BY_HAND = {"fixed": 5 * DEFAULT_SHARES, "fixed-most": 16 * DEFAULT_SHARES}
#: Seconds in which a settled share may move by a tenth.
STEADY = 60.0


@dataclass(frozen=True)
class Condition:
    """Who acts. ``law`` is the daemon's, if there is one; ``most``: T is the maximum, not what is committed alone.

    ``shares`` are set by hand on every component.
    """

    name: str
    title: str
    law: str | None = None
    slices: str = "off"
    most: bool = False
    shares: int | None = None


CONDITIONS = {
    one.name: one
    for one in (
        Condition("nothing", "nothing"),
        *(Condition(name, f"all components at {shares:,} by hand", shares=shares) for name, shares in BY_HAND.items()),
        Condition("proportional", "proportional", "proportional"),
        Condition("proportional-most", "proportional, T the maximum", "proportional", most=True),
        Condition("adaptive", "adaptive", "adaptive"),
        Condition("slices", "adaptive, slices auto", "adaptive", slices="auto"),
    )
}


@dataclass(frozen=True)
class Row:
    """One condition's figures: tps, ms, CPUs, sysbench events per second; ``movement`` as a part of the least share.

    ``seconds`` are the window's. ``busy_cores`` are the whole machine's: what runs outside of the lab, and the kernel,
    are among them. ``steal`` are the CPUs that the hypervisor gave to others, ``sysbench_cores`` those that sysbench
    used, whether it reported events or not.
    ``undisturbed`` are sysbench's events per core-second without a ledger, measured in the same repeat. Where nothing
    that was due in the window was committed there are no latencies.
    """

    load: str
    sysbench: int
    repeat: int
    condition: str
    tps: float
    p50: float | None
    p95: float | None
    p99: float | None
    failed: int
    peers_delay: float
    ledger_cores: float
    client_cores: float
    daemon_cores: float
    busy_cores: float
    events: float
    events_per_core: float | None
    movement: float
    seconds: float
    steal: float
    sysbench_cores: float
    undisturbed: float | None = None

    @property
    def looked_at(self) -> float:
        """Seconds within which ``movement`` was looked for."""
        return min(STEADY, self.seconds)

    @property
    def outside(self) -> float:
        """CPUs that were used outside of the lab."""
        lab = self.ledger_cores + self.client_cores + self.daemon_cores + self.sysbench_cores
        return max(0.0, self.busy_cores - lab)


def row_of(
    load: str, count: int, repeat: int, name: str, figures: ArmFigures, folder: Path, undisturbed: float | None = None
) -> Row:
    """Keep of an arm's figures what the laws are compared by."""
    result = parse_result(json.loads((folder / "load.json").read_text(encoding="utf-8")), folder / "load.json")
    load_figures = figures.load
    p50, p95, p99 = (
        one if load_figures.committed else None for one in (load_figures.p50, load_figures.p95, load_figures.p99)
    )
    return Row(
        load=load,
        sysbench=count,
        repeat=repeat,
        condition=name,
        tps=figures.load.throughput,
        p50=p50,
        p95=p95,
        p99=p99,
        failed=figures.load.failed,
        peers_delay=figures.roles[Role.PEER].delay,
        ledger_cores=figures.ledger_cores,
        client_cores=figures.client_cores,
        daemon_cores=figures.daemon_cores,
        busy_cores=figures.quiet.cores_busy,
        events=figures.interferer.events,
        events_per_core=figures.interferer.events_per_core,
        movement=movement(folder / "samples.csv", result.start, result.end),
        seconds=result.end - result.start,
        steal=figures.quiet.steal * machine().cores,
        sysbench_cores=figures.interferer.cores,
        undisturbed=undisturbed,
    )


def movement(samples: Path, start: float, end: float) -> float:
    """Give the widest range of any one share within a minute of a window, to its least."""
    shares: dict[str, list[tuple[float, float]]] = {}
    with samples.open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["shares"] and start <= float(line["unix"]) <= end:
                shares.setdefault(line["name"], []).append((float(line["unix"]), float(line["shares"])))
    return max((within(series) for series in shares.values()), default=0.0)


def within(series: Sequence[tuple[float, float]]) -> float:
    """Give the widest range of a series within any minute of it, to its least."""
    widest = 0.0
    for place, (begun, _) in enumerate(series):
        values = [value for at, value in series[place:] if at <= begun + STEADY]
        widest = max(widest, max(values) / min(values) - 1)
    return widest


def load_rows(directory: Path) -> list[Row]:
    """Read what has been measured so far."""
    rows = [Row(**json.loads(file.read_text(encoding="utf-8"))) for file in sorted(directory.glob("*/*/row.json"))]
    order = [ALONE, *CONDITIONS]
    return sorted(rows, key=lambda row: (row.load, row.sysbench, order.index(row.condition), row.repeat))


def spread(values: Sequence[float | None], spell: Callable[[float], str]) -> str:
    """Format the median and, of several, the least and the most; say how many of the repeats have no value."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    middle = spell(statistics.median(known))
    text = middle if len(known) == 1 else f"{middle} ({spell(min(known))} .. {spell(max(known))})"
    missing = len(values) - len(known)
    return f"{text}, - in {missing} of {len(values)}" if missing else text


def ratio(value: float | None, base: float | None) -> float | None:
    """Divide what there is."""
    return None if value is None or base is None else quotient(value, base)


def table(rows: Iterable[Row], cores: int) -> str:
    """Lay the conditions side by side, a line each."""
    heads = (
        "load", "sysbench", "condition", "tps", "of alone", "p50", "p95", "p95 to alone", "sysbench events/s",
        "of its due", "by work", "of what was idle alone", "peers' delay", "widest move of a share",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --- |" * (len(heads) - 1)]
    rows = list(rows)
    bases = {(row.load, row.repeat): row for row in rows if row.condition == ALONE}
    for key in dict.fromkeys((row.load, row.sysbench, row.condition) for row in rows):
        its = [row for row in rows if (row.load, row.sysbench, row.condition) == key]
        alone = [bases[row.load, row.repeat] for row in its]
        got = [
            [measure(free(base, cores), row) for row, base in zip(its, alone, strict=True)]
            for measure, free in ((part_of, due), (work_of, due), (part_of, idle))
        ]
        condition = CONDITIONS.get(key[2])
        cells = (
            key[0],
            str(key[1]),
            condition.title if condition else ALONE,
            spread([row.tps for row in its], lambda value: f"{value:.0f}"),
            spread([quotient(row.tps, base.tps) for row, base in zip(its, alone, strict=True)], percent),
            spread([row.p50 for row in its], milliseconds),
            spread([row.p95 for row in its], milliseconds),
            spread([ratio(row.p95, base.p95) for row, base in zip(its, alone, strict=True)], times),
            spread([row.events for row in its], lambda value: f"{value:.0f}") if condition else "-",
            *(spread(parts, percent) for parts in got),
            spread([row.peers_delay for row in its], milliseconds),
            f"{spread([row.movement for row in its], percent)} in {its[0].looked_at:.0f} s",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def due(alone: Row, cores: int) -> float:
    """CPUs that ledger and client leave free when they run alone: those that sysbench is owed."""
    return speakable(cores - alone.ledger_cores - alone.client_cores)


def idle(alone: Row, cores: int) -> float:
    """CPUs that are idle when ledger and client run alone, without those that work outside of the lab uses."""
    return speakable(cores - alone.busy_cores)


def speakable(cpus: float) -> float:
    """Give nothing for less than a twentieth of a CPU: what is left of a measurement, not something to divide by."""
    return cpus if cpus >= 0.05 else 0.0


def part_of(cpus: float, row: Row) -> float | None:
    """Say what part of these CPUs sysbench got, by its own events per core-second; ``None`` if there are none."""
    return row.events / row.events_per_core / cpus if cpus and row.events_per_core else None


def work_of(cpus: float, row: Row) -> float | None:
    """Say what part of the work that these CPUs do undisturbed sysbench did; ``None`` if there is none.

    A neighbour's core-second does less beside a ledger that has the caches; ``part_of`` does not see that.
    """
    return row.events / row.undisturbed / cpus if cpus and row.undisturbed else None


@dataclass(frozen=True)
class Account:
    """Where sysbench's due went, as parts of it that add up to 1: what it got, and who used more than alone.

    ``always`` is what ran outside of the lab when ledger and client were alone, ``outside`` what ran there more than
    that, and the little that was idle.
    """

    got: float
    ledger: float
    client: float
    daemon: float
    always: float
    outside: float


def account(row: Row, alone: Row, cores: int) -> Account | None:
    """Divide sysbench's due; ``None`` where there is none to speak of."""
    owed = due(alone, cores)
    got = part_of(owed, row)
    if got is None:
        return None
    ledger = (row.ledger_cores - alone.ledger_cores) / owed
    client = (row.client_cores - alone.client_cores) / owed
    daemon = row.daemon_cores / owed
    always = (alone.busy_cores - alone.ledger_cores - alone.client_cores) / owed
    return Account(got, ledger, client, daemon, always, 1.0 - got - ledger - client - daemon - always)


def accounts(rows: Iterable[Row], cores: int) -> str:
    """Lay out where sysbench's due went, a line for each condition."""
    heads = (
        "load", "sysbench", "condition", "ledger's CPU per transaction", "to alone", "sysbench got of its due",
        "the ledger more than alone", "the client", "the daemon", "outside of the lab, as alone", "more than alone",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --- |" * (len(heads) - 1)]
    rows = list(rows)
    bases = {(row.load, row.repeat): row for row in rows if row.condition == ALONE}
    for key in dict.fromkeys((row.load, row.sysbench, row.condition) for row in rows if row.condition != ALONE):
        its = [row for row in rows if (row.load, row.sysbench, row.condition) == key]
        alone = [bases[row.load, row.repeat] for row in its]
        parts = [one for row, base in zip(its, alone, strict=True) if (one := account(row, base, cores))]
        if not parts or key[0] != "fixed":  # a saturating load leaves next to nothing
            continue
        costs = [ratio(per_transaction(row), per_transaction(base)) for row, base in zip(its, alone, strict=True)]
        cells = (
            key[0],
            str(key[1]),
            CONDITIONS[key[2]].title,
            spread([per_transaction(row) for row in its], lambda value: f"{value:.2f} ms"),
            spread(costs, times),
            *(spread([getattr(one, part.name) for one in parts], percent) for part in fields(Account)),
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def per_transaction(row: Row) -> float | None:
    """Give the CPU time in ms that the ledger uses for one transaction, if it commits any."""
    return 1000 * row.ledger_cores / row.tps if row.tps else None
