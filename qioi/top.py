"""The live view: what status says, again and again, with what was before as sparklines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import compress
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

#: Values that one sparkline shows, and as many as fit beside the other columns on a terminal narrower than ROOMY.
WIDTH = 30
FEW = 10
ROOMY = 200
#: Columns that a terminal narrower than this has no room for.
WIDE = 140
WIDE_ONLY = {"Role", "Delay over time", "Last decision"}
BARS = "▁▂▃▄▅▆▇█"


class History:
    """The last values of everything that has a sparkline, by what and by whose."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], deque[float | None]] = {}
        self._periods = -1

    def take(self, document: dict[str, Any]) -> None:
        """Take one status in; the same period twice counts once. Who is gone is forgotten."""
        periods = document["totals"]["periods"]
        if periods == self._periods:
            return
        self._periods = periods
        new = {("throughput", one["name"]): one["throughput"] for one in document["channels"]}
        for one in document["components"]:
            new["share", one["name"]] = one["share"]
            new["delay", one["name"]] = one["delay"]
        self._values = {key: self._values.get(key, deque(maxlen=WIDTH)) for key in new}
        for key, value in new.items():
            self._values[key].append(value)

    def line(self, what: str, whose: str, most: int = WIDTH) -> str:
        """Give a sparkline of the last values."""
        return sparkline(list(self._values.get((what, whose), ()))[-most:])


def sparkline(values: Iterable[float | None]) -> str:
    """Draw values as bars between zero and the largest; a value that is not known is a gap."""
    kept = list(values)
    largest = max((value for value in kept if value is not None), default=0.0)
    return "".join(" " if value is None else bar(value / largest if largest > 0 else 0.0) for value in kept)


def bar(part: float) -> str:
    """Draw a part of the whole, 0..1."""
    return BARS[min(len(BARS) - 1, int(part * len(BARS)))]


def view(document: dict[str, Any], history: History, width: int) -> RenderableType:
    """Draw one status on so many columns."""
    rows = components(document, history, width)
    return Group(head(document), channels(document, history), rows, *notes(document, wide=width >= WIDE))


def head(document: dict[str, Any]) -> Text:
    """Say how the daemon and the host are."""
    totals, host = document["totals"], document["host"]
    dry = ", dry run" if document["dry_run"] else ""
    load = f"; host {host['idle']:.0%} idle, {host['foreign']:.0%} foreign" if host else ""
    return Text(
        f"QiOi {document['version']}, pid {document['pid']}{dry}: period {document['period']:g} s, "
        f"{totals['periods']} periods, {totals.get('early', '-')} early, {totals['late']} late, "
        f"last took {1000 * document['loop']:.1f} ms{load}",
        style="bold",
    )


def channels(document: dict[str, Any], history: History) -> Table:
    """Draw the channels; one below its threshold is red."""
    table = Table("Channel", "Law", right("A, tps"), right("T, tps"), right("Commit"), "A over time", expand=True)
    for one in document["channels"]:
        short = None not in (one["throughput"], one["threshold"]) and one["throughput"] < one["threshold"]
        table.add_row(
            one["name"],
            one["law"],
            Text(number(one["throughput"], "{:.1f}"), style="red" if short else "green"),
            number(one["threshold"], "{:.1f}") + (" auto" if one["source"] == "auto" else ""),
            number(one["age"], "{:.1f} s ago"),
            history.line("throughput", one["name"]),
        )
    return table


def components(document: dict[str, Any], history: History, width: int) -> Table:
    """Draw the components; one that is raised is yellow, one with a problem red."""
    wide, most = width >= WIDE, WIDTH if width >= ROOMY else FEW
    heads = (
        Column("Component", no_wrap=True), Column("Role"), right("Share"), Column("Share over time"), right("Delay"),
        Column("Delay over time"), right("Waiting"), right("Cores"),
        Column("Last decision", ratio=1, no_wrap=True, overflow="ellipsis"),
    )  # fmt: skip
    shown = [wide or head.header not in WIDE_ONLY for head in heads]
    table = Table(*compress(heads, shown), expand=wide)
    for one in document["components"]:
        raised = None not in (one["share"], one["original"]) and one["share"] > one["original"]
        row = (
            one["name"],
            one["role"],
            Text(number(one["share"], "{}"), style="yellow" if raised else ""),
            history.line("share", one["name"], most),
            number(None if one["delay"] is None else 1000 * one["delay"], "{:.2f} ms"),
            history.line("delay", one["name"], most),
            number(one["waiting_share"], "{:.0%}"),
            number(one["cores"], "{:.2f}"),
            Text(one["problem"] or one["reason"], style="red" if one["problem"] else ""),
        )
        table.add_row(*compress(row, shown))
    return table


def notes(document: dict[str, Any], *, wide: bool) -> list[Text]:
    """Say what is wrong elsewhere; and with components, where the table has no room for it."""
    lines = [f"{one['name']}: {one['problem']}" for one in document["components"] if one["problem"] and not wide]
    lines += [f"{one['kind']} of {one['component']}: {one['problem']}" for one in document["sources"] if one["problem"]]
    lines += [f"reload refused: {problem}" for problem in document["configuration"]["problems"]]
    return [Text(line, style="red") for line in lines]


def right(name: str) -> Column:
    """Make a column of numbers."""
    return Column(name, justify="right", no_wrap=True)


def number(value: Any, form: str) -> str:
    """Show a value, or a dash for one that is not known."""
    return "-" if value is None else form.format(value)
