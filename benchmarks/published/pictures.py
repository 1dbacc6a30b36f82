"""Pictures of records: a panel for each quantity, a bar for each condition, with the least and the most of the repeats.

A picture carries the digest of its record and of what is drawn of it, by which a test knows whether it is up to date.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from published import spell
from published.record import Form, Record
from qioi.lab.plots import INK, QUIET

#: Version of how pictures and curves are drawn: raise it with a change after which they look otherwise.
DRAWING = 1
BLUE, GREY = "#0072B2", "#b8c2cc"


class Picture(NamedTuple):
    """What is drawn of a record, and into which file of docs/figures.

    ``columns`` are keys with the titles of their panels, ``ours`` is the row that stands out.
    """

    file: str
    record: str
    rows: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    ours: str


PICTURES = (
    Picture(
        "headline.svg",
        "headline",
        ("fixed-alone", "fixed-16-nothing", "fixed-16-fixed", "fixed-16-fixed-most", "fixed-16-adaptive"),
        (("tps", "tps"), ("p95", "p95"), ("work", "sysbench, by work")),
        "fixed-16-adaptive",
    ),
)


def digest(picture: tuple[object, ...], record: Record) -> str:
    """Digest everything that a record says, what of it is drawn, and how."""
    return hashlib.sha256(msgspec.json.encode((DRAWING, picture, record))).hexdigest()


def is_current(file: Path, picture: tuple[object, ...], record: Record) -> bool:
    """Whether a picture is there, and of this record."""
    return file.exists() and digest(picture, record) in file.read_text(encoding="utf-8")


def draw(picture: Picture, record: Record, folder: Path) -> None:
    """Draw one picture into ``folder``."""
    with mpl.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "qioi", "text.color": INK}):
        figure = Figure(figsize=(10.6, 0.7 + 0.34 * len(picture.rows)))
        axes = figure.subplots(1, len(picture.columns), sharey=True, squeeze=False)[0]
        for axis, (column, title) in zip(axes, picture.columns, strict=True):
            axis.set_title(title, loc="left", color=INK)
            panel(axis, picture, record, column)
        titles = [record.row(key).title.replace(", all components", ",\nall components") for key in picture.rows]
        axes[0].set_yticks(range(len(titles)), titles)
        axes[0].invert_yaxis()
        figure.tight_layout()
        metadata = {"Date": None, "Creator": None, "Description": digest(picture, record)}
        figure.savefig(folder / picture.file, metadata=metadata, bbox_inches="tight")


def caption(repeats: Sequence[float | None], form: Form) -> str:
    """Write the median, and how many repeats have no value."""
    values = [value for value in repeats if value is not None]
    if not values:
        return "-"
    missing = len(repeats) - len(values)
    return spell.one(statistics.median(values), form) + (f", - in {missing} of {len(repeats)}" if missing else "")


def panel(axis: Axes, picture: Picture, record: Record, key: str) -> None:
    """Draw one quantity."""
    column = record.column(key)
    taken = [record.values(row, key) for row in picture.rows]
    most = max((value for values in taken for value in values if value is not None), default=0.0)
    for place, (row, repeats) in enumerate(zip(picture.rows, taken, strict=True)):
        values = [value for value in repeats if value is not None]
        if values:
            axis.barh(place, statistics.median(values), color=BLUE if row == picture.ours else GREY, height=0.66)
            axis.plot([min(values), max(values)], [place, place], color=INK, linewidth=1)
        end = max(values, default=0.0) + 0.04 * most
        axis.text(end, place, caption(repeats, column.form), va="center", color=INK)
    axis.set_xlim(0, 1.7 * most or 1)
    axis.set_xticks([])
    axis.tick_params(colors=QUIET, labelcolor=INK, length=0)
    for side in axis.spines.values():
        side.set_visible(False)
