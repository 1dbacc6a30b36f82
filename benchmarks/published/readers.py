"""What the benchmarks leave behind, as the rows and columns of a record."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from fixed_load import kept_load
from laws_figures import ALONE, CONDITIONS, due, load_rows, part_of, ratio, work_of
from laws_figures import Row as LawRow

from published.record import Column, Form, LeftOut, Row
from qioi.experiment.calibration import Calibration
from qioi.lab.figures import quotient

#: CPUs beyond which a repeat does not count, that processes outside of the lab used or the hypervisor took for others:
#: a fifth of what two cores have. The rule looks at nothing that the ledger or its neighbours did.
OTHERS = 0.4


class Figures(NamedTuple):
    """What was read of a piece's results."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...] = ()


#: The values of every repeat, by row and column.
Values = dict[str, dict[str, list[float | None]]]

#: Reads the folders of a piece's runs, one for each, with the machine's speed around them.
Reader = Callable[[Sequence[Path], Sequence[Calibration]], Figures]


@dataclass(frozen=True)
class OneFolder:
    """The reader of a benchmark that keeps all repeats in one folder: to these none can be added."""

    read: Callable[[Path, Sequence[Calibration]], Figures]

    def __call__(self, folders: Sequence[Path], speed: Sequence[Calibration]) -> Figures:
        """Read the folder of the only run."""
        (folder,) = folders
        return self.read(folder, speed)


def add(found: Values, row: str, values: Mapping[str, float | None]) -> None:
    """Add one repeat's values, by column, to a row."""
    for column, value in values.items():
        found.setdefault(row, {}).setdefault(column, []).append(value)


def rows_of(found: Values, title: Callable[[str], str]) -> tuple[Row, ...]:
    """Make rows of what was added; ``title`` names one by its key."""
    return tuple(
        Row(key, title(key), {column: tuple(its) for column, its in values.items()}) for key, values in found.items()
    )


PROTECTION = (
    Column("offered", "tps offered", Form.COUNT),
    Column("cpus", "ledger and client, of the CPUs", Form.PERCENT),
    Column("tps", "tps", Form.COUNT),
    Column("throughput", "of alone", Form.PERCENT),
    Column("p50", "p50", Form.MILLISECONDS),
    Column("p95", "p95", Form.MILLISECONDS),
    Column("slower", "p95 to alone", Form.TIMES),
    Column("unsent", "due, but failed or never sent", Form.PERCENT),  # these have no latency
    Column("due", "sysbench, of its due by CPU", Form.PERCENT),
    Column("work", "by work", Form.PERCENT),
)


def laws(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
    """Read bench_laws.py's rows: every folder has repeats of its own, which are numbered on."""
    cores = int(json.loads((folders[0] / "laws.json").read_text(encoding="utf-8"))["machine"]["cores"])
    found: list[LawRow] = []
    offered: dict[int, float] = {}
    for folder, moved, rows_there in numbered(folders):
        loads = {repeat: kept_load(folder, repeat - moved) for repeat in {row.repeat for row in rows_there}}
        offered |= {repeat: load.tps for repeat, load in loads.items() if load is not None}
        found += rows_there
    return protection(found, offered, cores, law_title)


def protection(
    found: Sequence[LawRow], offered: Mapping[int, float], cores: int, title: Callable[[LawRow], str]
) -> Figures:
    """Lay conditions side by side, in the order in which they were found."""
    repeats = max(row.repeat for row in found)
    by_key: dict[str, dict[int, LawRow]] = {}
    for row in found:
        by_key.setdefault(law_key(row), {})[row.repeat] = row
    rows = [
        Row(key, title(next(iter(its.values()))), law_values(its, by_key, offered, repeats, cores))
        for key, its in by_key.items()
    ]
    return Figures(PROTECTION, tuple(rows), tuple(disturbed(found)))


@OneFolder
def ends(folder: Path, _speed: Sequence[Calibration]) -> Figures:
    """Read bench_ends.py's rows, in the order of its ways."""
    document = json.loads((folder / "ends.json").read_text(encoding="utf-8"))
    titles: dict[str, str] = document["titles"]
    order = list(titles)
    asked = (LawRow(**row) for row in document["rows"] if row["condition"] in titles)
    found = sorted(asked, key=lambda row: (order.index(row.condition), row.repeat))
    offered = {int(repeat): float(tps) for repeat, tps in document["offered"].items()}
    return protection(found, offered, document["machine"]["cores"], lambda row: titles[row.condition])


def numbered(folders: Iterable[Path]) -> Iterator[tuple[Path, int, list[LawRow]]]:
    """Give each folder, what its repeats' numbers are moved by, and its rows, numbered on from those before them."""
    before = 0
    for folder in folders:
        rows = load_rows(folder)
        moved = before + 1 - min(row.repeat for row in rows)  # a benchmark may begin with another number than 1
        yield folder, moved, [replace(row, repeat=moved + row.repeat) for row in rows]
        before = moved + max(row.repeat for row in rows)


def law_key(row: LawRow) -> str:
    """Name a condition in a record."""
    return f"{row.load}-{ALONE}" if row.condition == ALONE else f"{row.load}-{row.sysbench}-{row.condition}"


def law_title(row: LawRow) -> str:
    """Name a condition for a reader."""
    if row.condition == ALONE:
        return ALONE
    title = CONDITIONS[row.condition].title
    return f"{row.sysbench} sysbench" if row.condition == "nothing" else f"{row.sysbench} sysbench, {title}"


def law_values(
    its: dict[int, LawRow],
    by_key: dict[str, dict[int, LawRow]],
    offered: Mapping[int, float],
    repeats: int,
    cores: int,
) -> dict[str, tuple[float | None, ...]]:
    """Give a condition's values, each ratio to the same repeat's alone; ``offered`` is each repeat's fixed load."""
    values: dict[str, list[float | None]] = {column.key: [] for column in PROTECTION}
    for repeat in range(1, repeats + 1):
        row = its.get(repeat)
        alone = by_key.get(f"{row.load}-{ALONE}", {}).get(repeat) if row else None
        if row is None or alone is None:
            measured: dict[str, float | None] = {}
        else:
            free = due(alone, cores)
            rate = offered.get(repeat) if row.load == "fixed" else None
            measured = {
                "offered": rate,
                "cpus": (row.ledger_cores + row.client_cores) / cores,
                "tps": row.tps,
                "throughput": quotient(row.tps, alone.tps),
                "p50": row.p50,
                "p95": row.p95,
                "slower": ratio(row.p95, alone.p95),
                "unsent": quotient(row.failed, row.seconds * rate) if rate else None,
                "due": part_of(free, row),
                "work": work_of(free, row),
            }
        for key, column in values.items():
            column.append(measured.get(key))
    return {key: tuple(column) for key, column in values.items()}


def disturbed(rows: Iterable[LawRow]) -> list[LeftOut]:
    """Name the repeats in which others had too much of the machine."""
    return most_taken((row.repeat, taken(row)) for row in rows)


def most_taken(used: Iterable[tuple[int, float]]) -> list[LeftOut]:
    """Name the repeats in one of whose measurements others used too many CPUs."""
    most: dict[int, float] = {}
    for repeat, cpus in used:
        most[repeat] = max(most.get(repeat, 0.0), cpus)
    return [left_out(repeat, cpus) for repeat, cpus in sorted(most.items()) if cpus > OTHERS]


def taken(row: LawRow) -> float:
    """CPUs that neither the lab nor the host's idle time had."""
    return row.outside + row.steal


def left_out(repeat: int, used: float) -> LeftOut:
    """Say why a repeat does not count."""
    return LeftOut(repeat, f"others, or the hypervisor for others, took up to {used:.2f} CPUs, more than {OTHERS}")


DAEMON = (
    Column("cpu", "CPU, of one core", Form.PERCENT),
    Column("verifications", "as P-256 verifications a second", Form.COUNT),
    Column("memory", "memory, MB", Form.NUMBER),
    Column("period", "work of a period", Form.MILLISECONDS),
)
SHAPE_TITLES = {
    "12": "12 components",
    "50": "50 components",
    "50+8": "50 components beside 8 neighbours",
    "1000": "1,000 components",
    "50x64": "50 components on 64 channels",
    "1000x30": "1,000 components of 30 threads",
}


def daemon(folders: Sequence[Path], speed: Sequence[Calibration]) -> Figures:
    """Read bench_daemon.py's results: a folder for each repeat.

    A machine's speed differs from hour to hour, so CPU time stands beside how many verifications it would be, as fast
    as they were before and after the repeats.
    """
    found: Values = {}
    visits = len(speed) - len(folders)  # the speed of each was measured before its runs and after the last
    runs = len(folders) // visits
    for number, folder in enumerate(folders):
        before = number + number // runs
        verification = statistics.mean(one.verify_us for one in speed[before : before + 2]) / 1e6
        for result in json.loads((folder / "daemon.json").read_text(encoding="utf-8")):
            cpu = result["cpu_percent"] / 100
            values = {"cpu": cpu, "verifications": cpu / verification}
            add(found, result["shape"], values | {"memory": result["rss_mb"], "period": result["loop_ms"]})
    return Figures(DAEMON, rows_of(found, SHAPE_TITLES.__getitem__))


REACTION = (
    Column("raised", "first share after", Form.SECONDS),
    Column("recovered", "95 % of the throughput after", Form.SECONDS),
    Column("back", "all shares back after", Form.SECONDS),
    Column("others", "others, CPUs", Form.NUMBER),
)


@OneFolder
def reaction(folder: Path, _speed: Sequence[Calibration]) -> Figures:
    """Read bench_reaction.py's visits. What was not seen has no value. Those of one number are one repeat."""
    visits: dict[float, list[dict[str, float | None]]] = {}
    for visit in json.loads((folder / "reaction.json").read_text(encoding="utf-8"))["reactions"]:
        visits.setdefault(visit["period"], []).append(visit)
    rows = [
        Row(f"{period:g}", f"period {period:g} s", {c.key: tuple(one[c.key] for one in its) for c in REACTION})
        for period, its in visits.items()
    ]
    apart = most_taken((number, one["others"] or 0.0) for its in visits.values() for number, one in enumerate(its, 1))
    return Figures(REACTION, tuple(rows), tuple(apart))


DISCOVERY = (Column("known", "known after", Form.SECONDS), Column("gone", "gone after", Form.SECONDS))


@OneFolder
def discovery(folder: Path, _speed: Sequence[Calibration]) -> Figures:
    """Read bench_discovery.py's visits."""
    found: Values = {}
    for one in json.loads((folder / "discovery.json").read_text(encoding="utf-8"))["visits"]:
        add(found, str(one["sysbench"]), {c.key: one[c.key] for c in DISCOVERY})
    return Figures(DISCOVERY, rows_of(found, lambda key: "alone" if key == "0" else f"{key} sysbench"))


BURSTS = (
    Column("p95", "p95", Form.MILLISECONDS),
    Column("slower", "p95 to alone's bursts", Form.TIMES),
    Column("throughput", "of what is offered", Form.PERCENT),
)
BURST_TITLES = {"alone": "alone", "nothing": "16 sysbench", "qioi": "16 sysbench, QiOi"}


def bursts(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
    """Read bench_bursts.py's bursts: a folder for each repeat. Each ratio is to the same repeat's bursts alone."""
    found: Values = {}
    for folder in folders:
        arms = json.loads((folder / "bursts.json").read_text(encoding="utf-8"))
        alone = statistics.median(one["p95"] for one in arms["alone"])
        for arm in BURST_TITLES:
            for number, one in enumerate(arms.get(arm, []), 1):
                p95 = one["p95"] if one["committed"] else None
                values = {
                    "p95": p95,
                    "slower": ratio(p95, alone),
                    "throughput": quotient(one["throughput"], arms["rate"]),
                }
                add(found, f"{arm}-{number}", values)
    return Figures(BURSTS, rows_of(found, burst_title))


def burst_title(key: str) -> str:
    """Name a burst for a reader."""
    arm, number = key.split("-")
    return f"{BURST_TITLES[arm]}, burst {number}"
