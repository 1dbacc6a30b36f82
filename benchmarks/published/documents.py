"""Figures in documents. A table stands between two marks, a single figure between two marks in its line:

    <!-- figures laws rows=alone,adaptive columns=tps,p95 -->
    …
    <!-- /figures -->

    p95 is <!-- figure laws adaptive p95 most=1.2 -->1.18x (1.12 .. 1.35), reached<!-- /figure --> of alone's

A single figure may have the bounds of its goal, ``least`` and ``most``, in its own unit, or as another row of the same
record, or both (``most=1.2,fixed``): the median, as it is written, reaches all of them or misses, if most of the
repeats have a value.

`make figures` fills them from docs/figures/data, and a test holds every document to its data. Of a piece that has no
data yet the marks say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from published import code, spell
from published.pieces import Piece
from published.record import Record
from qioi.experiment.calibration import speed

_TABLE = re.compile(
    r"(?P<head><!-- figures (?P<name>[\w-]+)(?P<options>(?: \w+=[\w,-]+)*) -->\n)"
    r"(?P<body>.*?)(?P<tail><!-- /figures -->)",
    re.DOTALL,
)
_FIGURE = re.compile(
    r"(?P<head><!-- figure (?P<name>[\w-]+) (?P<row>[\w.-]+) (?P<column>[\w-]+)(?P<bounds>(?: \w+=[\w.,-]+)*) -->)"
    r"(?P<body>[^<\n]*)(?P<tail><!-- /figure -->)"
)
_NUMBER = re.compile(r"[\d.]+")
#: Gives what is to stand between two marks of a document, which it names in its errors.
Painter = Callable[[re.Match[str], str], str]
_MARK = re.compile(r"<!-- /?figures?\b[^>]*-->")


def fill(text: str, document: str, mark: re.Pattern[str], drawn: Mapping[re.Pattern[str], Painter]) -> str:
    """Give a text with what is drawn between each pair of marks: a pattern's ``head`` and ``tail``.

    ValueError says that not each ``mark`` is one of a pair.
    """
    marks, pairs = len(mark.findall(text)), sum(len(pattern.findall(text)) for pattern in drawn)
    if marks != 2 * pairs:
        raise ValueError(f"{document}: {marks} marks of figures make {pairs} pairs: one is misspelt or left open")
    for pattern, paint in drawn.items():
        text = pattern.sub(partial(framed, paint, document), text)
    return text


def framed(paint: Painter, document: str, found: re.Match[str]) -> str:
    """Give two marks with what is drawn between them."""
    return found["head"] + paint(found, document) + found["tail"]


class Drawer:
    """Draws records into documents.

    ``root`` is the repository's, whose code tells which records are out of date. ``pieces`` are those of today; a
    piece's record may be missing.
    """

    def __init__(self, root: Path, records: Mapping[str, Record], pieces: Sequence[Piece]) -> None:
        self._root = root
        self._records = records
        self._pieces = {piece.name: piece for piece in pieces}

    def draw(self, text: str, document: str) -> str:
        """Give a document's text with every figure as its record has it; ValueError names what can't be drawn."""
        return fill(text, document, _MARK, {_TABLE: self._table, _FIGURE: self._figure})

    def _record(self, name: str, document: str) -> Record | None:
        """Find a record; ``None``: its piece is not measured yet."""
        if name not in self._pieces:
            raise ValueError(f"{document}: no record {name!r}; there are {', '.join(sorted(self._pieces)) or 'none'}")
        return self._records.get(name)

    def _figure(self, found: re.Match[str], document: str) -> str:
        record = self._record(found["name"], document)
        if record is None:
            return "not measured"
        try:
            text, value = median(record, found["row"], found["column"])
            bounds = {
                key: [float(one) if _NUMBER.fullmatch(one) else median(record, one, found["column"])[1] for one in its]
                for key, its in ((key, its.split(",")) for key, its in _options(found["bounds"]).items())
            }
        except KeyError as error:
            raise ValueError(f"{document}: {error.args[0]}") from error
        said = verdict(value, bounds, document)
        count = len(record.values(found["row"], found["column"]))
        of = f" by {count} of {count + len(record.left_out)} repeats" if said and record.left_out else ""
        return text + said + of

    def _table(self, found: re.Match[str], document: str) -> str:
        record = self._record(found["name"], document)
        if record is None:
            return "Not measured yet.\n"
        options = _options(found["options"])
        try:
            lines = table(record, chosen(options, "rows"), chosen(options, "columns"))
        except KeyError as error:
            raise ValueError(f"{document}: {error.args[0]}") from error
        return "\n".join([*lines, "", self._label(record), ""])

    def _label(self, record: Record) -> str:
        """Say of what, when and where it was measured, and whether its code or its command has changed since."""
        piece = self._pieces[record.name]
        on = f"`{record.commit}` and {record.beside}" if record.beside else f"`{record.commit}`"
        label = f"Measured on {on}, {record.date}, by `{record.command}`"
        changed = {
            "code": code.digest(self._root, piece.code) != record.code.digest,
            "command": piece.command != record.command,
        }
        if any(changed.values()):
            what = " and its ".join(key for key, its in changed.items() if its)
            label += f"; **its {what} {'have' if all(changed.values()) else 'has'} changed since**"
        label += f". {host(record)}"
        left = [f"repeat {one.repeat} is left out: {one.reason}." for one in record.left_out]
        return " ".join([f"{label}.", *left])


def _options(text: str) -> dict[str, str]:
    """Read a mark's options, as ``rows=alone,adaptive``, by key."""
    return dict(part.split("=", 1) for part in text.split())


def median(record: Record, row: str, column: str) -> tuple[str, float | None]:
    """Give a figure as it is written, and its median in the unit of that, ``None`` where most repeats have no value.

    KeyError says which row or column there is not.
    """
    values = record.values(row, column)
    text = spell.spread(values, record.column(column).form)
    known = sum(value is not None for value in values)
    return text, as_written(text) if 2 * known > len(values) else None


def as_written(figure: str) -> float:
    """Give the median of a figure that is written."""
    return float(figure.removeprefix("under ").split()[0].rstrip("x,").replace(",", ""))


def verdict(value: float | None, bounds: Mapping[str, Sequence[float | None]], document: str) -> str:
    """Say whether a value reaches all of its bounds; nothing where there are none, or there is nothing to compare."""
    if unknown := bounds.keys() - {"least", "most"}:
        raise ValueError(f"{document}: {', '.join(sorted(unknown))}: a figure's bounds are least and most")
    if value is None or not bounds:
        return ""
    reached = True
    for key, bound in ((key, bound) for key, its in bounds.items() for bound in its):
        if bound is None:
            return ""
        reached &= value >= bound if key == "least" else value <= bound
    return ", reached" if reached else ", **missed**"


def chosen(options: Mapping[str, str], key: str) -> Sequence[str] | None:
    """Give the keys that a mark asks for, in its order; None means all of them."""
    return options[key].split(",") if key in options else None


def table(record: Record, rows: Sequence[str] | None, columns: Sequence[str] | None) -> list[str]:
    """Lay rows and columns out as Markdown; KeyError says which there is not."""
    shown = [record.column(key) for key in columns] if columns else record.columns
    lines = ["| | " + " | ".join(column.title for column in shown) + " |", "| --- |" + " --- |" * len(shown)]
    for row in [record.row(key) for key in rows] if rows else record.rows:
        cells = (spell.spread(record.values(row.key, column.key), column.form) for column in shown)
        lines.append(f"| {row.title} | " + " | ".join(cells) + " |")
    return lines


def host(record: Record) -> str:
    """Describe the machine and its speed: the least and the most of the calibrations around the measurement."""
    machine = record.machine
    text = f"{machine.cores} cores, Linux {machine.kernel}, cgroup v{machine.cgroup_version}"
    if record.calibration:
        text += f"; calibration: {speed(record.calibration)}"
    return text
