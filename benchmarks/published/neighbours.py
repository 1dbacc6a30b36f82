"""What each of a number of neighbours gets, as the rows and columns of a record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from laws_figures import ALONE
from msgspec.structs import replace

from published.readers import PROTECTION, Figures, law_key, laws, numbered
from published.record import Column, Form
from qioi.experiment.calibration import Calibration

#: What bench_laws.py's figures lack, because elsewhere all conditions have as many neighbours.
EVENTS = (
    Column("events", "events a second of all sysbench", Form.COUNT),
    Column("each", "of each", Form.COUNT),
)


def neighbours(folders: Sequence[Path], speed: Sequence[Calibration]) -> Figures:
    """Read bench_laws.py's rows with the neighbours' events."""
    measured = [row for _, _, rows_there in numbered(folders) for row in rows_there]
    found = {(law_key(row), row.repeat): row for row in measured if row.condition != ALONE}
    repeats = max(row.repeat for row in measured)
    figures = laws(folders, speed)
    rows = []
    for row in figures.rows:
        its = [found.get((row.key, repeat)) for repeat in range(1, repeats + 1)]
        values = {
            "events": tuple(one and one.events for one in its),
            "each": tuple(one and one.events / one.sysbench for one in its),
        }
        rows.append(replace(row, values=row.values | values) if any(its) else row)
    return Figures((*PROTECTION, *EVENTS), tuple(rows), figures.left_out)
