"""What each of a number of neighbours gets, as the rows and columns of a record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from laws_figures import ALONE, load_rows
from msgspec.structs import replace

from published.readers import PROTECTION, Figures, OneFolder, law_key, laws
from published.record import Calibration, Column, Form

#: What bench_laws.py's figures lack, because elsewhere all conditions have as many neighbours.
EVENTS = (
    Column("events", "events a second of all sysbench", Form.COUNT),
    Column("each", "of each", Form.COUNT),
)


@OneFolder
def neighbours(folder: Path, speed: Sequence[Calibration]) -> Figures:
    """Read bench_laws.py's rows of one run, with the neighbours' events."""
    found = {(law_key(row), row.repeat): row for row in load_rows(folder) if row.condition != ALONE}
    figures = laws([folder], speed)
    repeats = {repeat for _, repeat in found}
    rows = []
    for row in figures.rows:
        its = [found.get((row.key, repeat)) for repeat in sorted(repeats)]
        values = {
            "events": tuple(one and one.events for one in its),
            "each": tuple(one and one.events / one.sysbench for one in its),
        }
        rows.append(replace(row, values=row.values | values) if any(its) else row)
    return Figures((*PROTECTION, *EVENTS), tuple(rows), figures.left_out)
