"""Earlier visits: what a piece measured before its record, of other builds or in other hours.

docs/figures/visits/NAME.json has them, in the order in which they were measured. A table of them, the newest first and
the record above all, stands between two marks, with a column for each row and column of the record that is named:

    <!-- visits headline rows=adaptive,fixed columns=slower,work -->
    …
    <!-- /visits -->
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from published import spell
from published.documents import fill
from published.record import Form, Record

_MARK = re.compile(r"<!-- /?visits\b[^>]*-->")
_TABLE = re.compile(
    r"(?P<head><!-- visits (?P<name>[\w-]+) rows=(?P<rows>[\w.,-]+) columns=(?P<columns>[\w,-]+) -->\n)"
    r"(?P<body>.*?)(?P<tail><!-- /visits -->)",
    re.DOTALL,
)


def load(folder: Path, name: str) -> list[Record]:
    """Read a piece's earlier visits, the oldest first, none where it has no file; ValueError names a bad file."""
    file = folder / f"{name}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Record])
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as error:
        raise ValueError(f"{file}: {error}") from error


def keep(record: Record, folder: Path) -> None:
    """Put a record that is to be replaced behind the earlier visits of its piece, unless it is there already."""
    visits, its = load(folder, record.name), without_paths(record)
    if its not in visits:  # who was to replace it may have failed after that
        save([*visits, its], folder)


def save(visits: Sequence[Record], folder: Path) -> None:
    """Write a piece's earlier visits, a line for each, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{visits[0].name}.json"
    lines = [msgspec.json.encode(one) for one in visits]
    part = file.with_suffix(".part")
    part.write_bytes(b"[\n" + b",\n".join(lines) + b"\n]\n")
    part.replace(file)


def without_paths(record: Record) -> Record:
    """Leave out which code the figures depended on in their day; its digest stays."""
    return replace(record, code=replace(record.code, paths=()))


class VisitDrawer:
    """Draws earlier visits into documents: ``records`` are those of today, ``folder`` has those before."""

    def __init__(self, records: Mapping[str, Record], folder: Path) -> None:
        self._records = records
        self._folder = folder

    def draw(self, text: str, document: str) -> str:
        """Give a document's text with every table of visits; ValueError names what can't be drawn."""
        return fill(text, document, _MARK, {_TABLE: self._table})

    def _table(self, found: re.Match[str], document: str) -> str:
        record = self._records.get(found["name"])
        if record is None:
            raise ValueError(f"{document}: no record {found['name']!r}; there are {', '.join(sorted(self._records))}")
        shown = [(row, column) for row in found["rows"].split(",") for column in found["columns"].split(",")]
        try:
            titles = [f"{record.row(row).title}: {record.column(column).title}" for row, column in shown]
        except KeyError as error:
            raise ValueError(f"{document}: {error.args[0]}") from error
        visits = [record, *reversed(load(self._folder, record.name))]
        lines = ["| visit | verification | " + " | ".join(titles) + " |", "| --- | --- |" + " --- |" * len(shown)]
        lines += [line(visit, shown, record.command) for visit in visits]
        return "\n".join([*lines, ""])


def line(visit: Record, shown: Iterable[tuple[str, str]], command: str) -> str:
    """Write a visit's line. A star stands behind one that another command measured."""
    star = "" if visit.command == command else r" \*"
    cells = [f"`{visit.commit}`, {visit.date}{star}", verification(visit)]
    return "| " + " | ".join([*cells, *(cell(visit, row, column) for row, column in shown)]) + " |"


def verification(visit: Record) -> str:
    """Give what a P-256 verification took around a visit."""
    return spell.spread([one.verify_us for one in visit.calibration], Form.NUMBER) + " us"


def cell(visit: Record, row: str, column: str) -> str:
    """Write a figure of a visit, which may have no such row or column."""
    try:
        return spell.spread(visit.values(row, column), visit.column(column).form)
    except KeyError:
        return "-"
