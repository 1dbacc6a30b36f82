"""The live view: what status says, renewed, with earlier values as sparklines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from qioi.model.names import counted, printable, shortened
from qioi.show.footnotes import footnotes, raised_above
from qioi.show.stalled import of_then

#: Values that one sparkline shows.
WIDTH = 30
BARS = "▁▂▃▄▅▆▇█"
#: For terminals whose encoding has no blocks.
PLAIN = "_.-=+*%#"
#: Columns that a terminal must have for delays, for sparklines, for the reasons of decisions, and for long sparklines.
WITH_DELAYS, WITH_SPARKLINES, WITH_REASONS, WIDE = 60, 72, 110, 160
#: Lines of a table beside its rows, and columns of it beside each column's text.
FRAME, BESIDE = 4, 3
#: Characters that names and reasons have at least, where the terminal is too narrow for all.
LEAST_NAME, LEAST_REASON = 12, 13


class History:
    """The last values of everything that has a sparkline, by kind and by name."""

    def __init__(self, bars: str = BARS) -> None:
        self._bars = bars
        self._values: dict[tuple[str, str], deque[float | None]] = {}
        self._periods = -1

    def take(self, document: dict[str, Any]) -> None:
        """Take one status in. A period counts once; what is gone is forgotten."""
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

    def line(self, what: str, whose: str, width: int = WIDTH) -> str:
        """Give a sparkline of the last values."""
        return sparkline([*self._values.get((what, whose), ())][-width:], self._bars)


def bars_for(encoding: str) -> str:
    """Give the bars that a terminal of an encoding can show."""
    try:
        BARS.encode(encoding)
    except (UnicodeError, LookupError):
        return PLAIN
    return BARS


def sparkline(values: Iterable[float | None], bars: str = BARS) -> str:
    """Draw values as bars between zero and the largest; a value that is not known is a gap."""
    kept = list(values)
    largest = max((value for value in kept if value is not None), default=0.0)
    return "".join(" " if value is None else bar(value / largest if largest > 0 else 0.0, bars) for value in kept)


def bar(part: float, bars: str = BARS) -> str:
    """Draw a part of the whole, 0..1."""
    return bars[min(len(bars) - 1, int(part * len(bars)))]


def view(document: dict[str, Any], history: History, width: int = 200, height: int | None = None) -> RenderableType:
    """Draw one status for a terminal of so many columns and lines."""
    document = printable(document)
    first, below = head(document), notes(document)
    said = of_then(document.get("snapshot_age", 0.0), document["period"])
    above = [line(said)] if said else []
    if width < WIDE:  # the columns that show them are missing or cut
        below += [problem(one) for one in document["components"] if one["problem"]]
    shown = document["components"]
    if height is not None:
        taken = 1 + len(first.plain) // max(1, width - 12)  # it is wrapped between words
        taken += len(above) + len(below) + len(document["channels"]) + 2 * FRAME
        shown = most_wanted(shown, max(1, height - taken - 1))
    if len(shown) < len(document["components"]):
        more = counted(len(document["components"]) - len(shown), "more component")
        below.insert(0, Text(f"and {more}", style="dim"))
    return Group(*above, first, channels(document, history, width), components(shown, history, width), *below)


def most_wanted(components: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Choose components for the room there is: those with a problem, then the raised, then those that wait most."""
    if len(components) <= room:
        return components
    ranked = sorted(
        components, key=lambda one: (not one["problem"], not is_raised(one), -(one["waiting_share"] or 0.0))
    )
    chosen = {one["name"] for one in ranked[:room]}
    return [one for one in components if one["name"] in chosen]


def is_raised(component: dict[str, Any]) -> bool:
    """Whether a component has more than it was found with."""
    return None not in (component["share"], component["original"]) and component["share"] > component["original"]


def problem(component: dict[str, Any]) -> Text:
    """Say what a component's problem is."""
    return line(f"{component['name']}: {component['problem']}")


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


def channels(document: dict[str, Any], history: History, width: int) -> Table:
    """Draw the channels; one below its threshold is red."""
    room = sparkline_room(width)
    columns = {
        "Channel": Column("Channel", no_wrap=True),
        "Law": Column("Law", no_wrap=True),
        "A, tps": right("A, tps"),
        "T, tps": right("T, tps"),
        "Commit": right("Commit"),
        "A over time": Column("A over time", no_wrap=True, min_width=room),
    }
    hidden = set() if width >= WITH_SPARKLINES else {"Law", "A over time"}
    table = Table(*(column for name, column in columns.items() if name not in hidden), expand=True)
    for one in document["channels"]:
        short = None not in (one["throughput"], one["threshold"]) and one["throughput"] < one["threshold"]
        cells: dict[str, RenderableType] = {
            "Channel": one["name"],
            "Law": one["law"],
            "A, tps": Text(number(one["throughput"], "{:.1f}"), style="red" if short else "green"),
            "T, tps": number(one["threshold"], "{:.1f}") + (" auto" if one["source"] == "auto" else ""),
            "Commit": number(one["age"], "{:.1f} s ago"),
            "A over time": history.line("throughput", one["name"], room),
        }
        table.add_row(*(cell for name, cell in cells.items() if name not in hidden))
    return table


def components(shown: list[dict[str, Any]], history: History, width: int) -> Table:
    """Draw components; one that is raised is yellow, one with a problem red."""
    room = sparkline_room(width)
    columns = {
        "Component": Column("Component", no_wrap=True),
        "Role": Column("Role", no_wrap=True),
        "Share": right("Share"),
        "Share over time": Column("Share over time" if room >= WIDTH else "", no_wrap=True, min_width=room),
        "Delay": right("Delay"),
        "Delay over time": Column("Delay over time" if room >= WIDTH else "", no_wrap=True, min_width=room),
        "Waiting": right("Waiting"),
        "Cores": right("Cores"),
        "Last decision": Column("Last decision", ratio=1, no_wrap=True, overflow="ellipsis"),
    }
    hidden: set[str] = set()
    if width < WITH_REASONS:
        hidden |= {"Role", "Cores", "Last decision"}
    if width < WITH_SPARKLINES:
        hidden |= {"Share over time", "Delay over time"}
    if width < WITH_DELAYS:
        hidden.add("Delay")
    kept = [name for name in columns if name not in hidden]
    rows = [
        {
            "Component": Text(one["name"]),
            "Role": Text(one["role"]),
            "Share": Text(number(one["share"], "{}"), style="yellow" if is_raised(one) else ""),
            "Share over time": Text(history.line("share", one["name"], room)),
            "Delay": Text(number(None if one["delay"] is None else 1000 * one["delay"], "{:.2f} ms")),
            "Delay over time": Text(history.line("delay", one["name"], room)),
            "Waiting": Text(number(one["waiting_share"], "{:.0%}")),
            "Cores": Text(number(one["cores"], "{:.2f}")),
            "Last decision": Text(one["problem"] or one["reason"], style="red" if one["problem"] else ""),
        }
        for one in shown
    ]
    table = Table(*(columns[name] for name in kept), expand=True)
    longest = name_room({name: columns[name] for name in kept}, rows, width)
    for row in rows:
        row["Component"].plain = shortened(row["Component"].plain, longest)
        table.add_row(*(row[name] for name in kept))
    return table


def name_room(columns: dict[str, Column], rows: list[dict[str, Text]], width: int) -> int:
    """Give the columns that are left for names: long names never cut a number."""
    others = 0
    for name, column in columns.items():
        if name not in ("Component", "Last decision"):
            words = [str(column.header), *(row[name].plain for row in rows)]
            others += max(column.min_width or 0, *map(len, words)) + BESIDE
    reason = LEAST_REASON + BESIDE if "Last decision" in columns else 0
    return max(LEAST_NAME, width - others - reason - BESIDE - 1)


def sparkline_room(width: int) -> int:
    """Give the columns that a sparkline has in a terminal of a width."""
    return WIDTH if width >= WIDE else 8


def notes(document: dict[str, Any]) -> list[Text]:
    """Name neighbours, groups that are raised in components' place, and what is wrong."""
    groups = ", ".join(f"{one['group']} {one['cores']:.2f}" for one in document.get("foreigners", ()))
    foreign = [line(f"Foreign work, in CPUs: {groups}", style="")] if groups else []
    raised = [line(text, style="") for text in raised_above(document)]
    return foreign + raised + [line(text) for text in footnotes(document)]


def line(text: str, style: str = "red") -> Text:
    """Write one line below the tables; `qioi status` has all of one that is too long."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def right(name: str) -> Column:
    """Make a column of numbers."""
    return Column(name, justify="right", no_wrap=True)


def number(value: Any, form: str) -> str:
    """Show a value, or a dash for one that is not known."""
    return "-" if value is None else form.format(value)
