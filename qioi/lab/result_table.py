"""The final table as rows of text, for the terminal, the page and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from qioi.lab.figures import ArmFigures, Ratios, due, ratios
from qioi.model import Role

#: Within these bounds of "alone" a value counts as restored (the project's own targets).
GOOD_THROUGHPUT = 0.95
GOOD_LATENCY = 1.5
GOOD_DUE = 0.95
#: The least ratio that is shown as a number.
LEAST_RATIO = 0.0001


@dataclass(frozen=True, slots=True)
class Entry:
    """A value, its ratio to "alone" (or to what is due), and its verdict: good, bad or none."""

    value: str
    ratio: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line. A heading has no entries."""

    label: str
    entries: tuple[Entry, ...] = ()
    heading: bool = False


def build_rows(arms: Sequence[ArmFigures], cores: int) -> list[Row]:
    """Lay the arms side by side; the first is the base of every ratio."""
    alone = arms[0]
    against = [ratios(arm, alone, cores) for arm in arms[1:]]
    return [
        Row("Ledger", heading=True),
        line(
            "throughput, tps",
            (f"{arm.load.throughput:,.0f}" for arm in arms),
            ((percent(its.throughput), verdict(its.throughput >= GOOD_THROUGHPUT)) for its in against),
        ),
        line("latency p50, ms", (short(arm.load.p50) for arm in arms), (slower(its.p50) for its in against)),
        line("latency p95, ms", (short(arm.load.p95) for arm in arms), (slower(its.p95) for its in against)),
        line("latency p99, ms", (short(arm.load.p99) for arm in arms), (slower(its.p99) for its in against)),
        line("failed or not sent", (f"{arm.load.failed:,}" for arm in arms)),
        Row("Scheduling delay, ms", heading=True),
        *(
            line(
                plural(role),
                (short(arm.roles[role].delay) for arm in arms),
                ((times(its.delay[role]), "") for its in against),
            )
            for role in alone.roles
        ),
        Row("sysbench, all instances", heading=True),
        line(
            "throughput, events/s",
            (f"{arm.interferer.events:,.0f}" if arm.interferer.count else "-" for arm in arms),
            (of_due(its) for its in against),
        ),
        line("its due, events/s", (due_value(arm, alone, cores) for arm in arms)),
        Row("Disk flush of 4 KiB, ms", heading=True),
        line("p50", (short(arm.flush.p50) if arm.flush.count else "-" for arm in arms)),
        line("p95", (short(arm.flush.p95) if arm.flush.count else "-" for arm in arms)),
        Row("CPU time, in cores", heading=True),
        line("ledger", (f"{arm.ledger_cores:.2f}" for arm in arms)),
        line("load client", (f"{arm.client_cores:.2f}" for arm in arms)),
        line("sysbench", (f"{arm.interferer.cores:.2f}" if arm.interferer.count else "-" for arm in arms)),
        line("QiOi", (f"{arm.daemon_cores:.3f}" if arm.daemon_cores else "-" for arm in arms)),
    ]


def line(label: str, values: Iterable[str], compared: Iterable[tuple[str, str]] = ()) -> Row:
    """Put values and, from the second arm on, what they are against the first into one row."""
    pairs = zip_longest(values, [("", ""), *compared], fillvalue=("", ""))
    return Row(label, tuple(Entry(str(value), ratio, grade) for value, (ratio, grade) in pairs))


def slower(ratio: float) -> tuple[str, str]:
    """Format and judge a latency's multiple."""
    return times(ratio), verdict(ratio <= GOOD_LATENCY)


def of_due(its: Ratios) -> tuple[str, str]:
    """Format and judge the part of its due that the interferer got."""
    if its.interferer_due is None:
        return "", ""
    return percent(its.interferer_due), verdict(its.interferer_due >= GOOD_DUE)


def due_value(arm: ArmFigures, alone: ArmFigures, cores: int) -> str:
    """Format what the interferer is owed in this arm."""
    speed = arm.interferer.events_per_core
    return f"{due(alone, cores, speed):,.0f}" if speed is not None else "-"


def plural(role: Role) -> str:
    """Name all components of a role."""
    return role.value if role is Role.CHAINCODE else f"{role.value}s"


def milliseconds(value: float) -> str:
    """Format a time in milliseconds."""
    return f"{short(value)} ms"


def short(value: float) -> str:
    """Format a number with about three digits."""
    digits = 0 if value >= 100 or value == 0 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:,.{digits}f}"


def percent(ratio: float) -> str:
    """Format a part of a whole."""
    return f"{100 * ratio:.0f} %"


def times(ratio: float) -> str:
    """Format a multiple. One that would be rounded to nothing is said to be under the least that is shown."""
    if ratio < LEAST_RATIO / 2:
        return f"under {LEAST_RATIO:.4f}x" if ratio > 0 else "0x"
    digits = 0 if ratio >= 10 else 1 if ratio >= 2 else 2 if ratio >= 0.1 else 3 if ratio >= 0.01 else 4
    return f"{ratio:.{digits}f}x"


def verdict(good: bool) -> str:
    """Name the class that colours it."""
    return "good" if good else "bad"
