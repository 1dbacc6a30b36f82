"""What of a run is committed: every value of every repeat, and the page drawn from them; no logs, no samples."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from qioi.experiment.page import PICTURES, runs_in, write_report
from qioi.experiment.store import Store
from qioi.processes.errors import LabError

#: In megabytes, of all files together.
MOST = 30.0
#: What makes up a run; the page, the tables and the pictures are drawn anew from it.
DATA = ("run.json", "repeats/*/repeat.json")
#: All that an excerpt has: its page, and what each run is and is drawn to.
FILES = ("report.html", *(f"*/{file}" for file in (*DATA, "summary.json", "metrics.csv", f"{PICTURES}/*")))


def write_excerpt(directory: Path, to: Path, most: float = MOST) -> Path:
    """Write the excerpt of a run's folder in place of what was written to ``to`` before, and return its page.

    LabError if ``to`` is within the run's folder or around it, if it holds something else, if the run has no finished
    repeat, or if the excerpt takes more than ``most`` megabytes; nothing changes then. What a call that was killed has
    put aside, the next call puts back first.
    """
    # Hidden: what is beside an excerpt under a plain name, such as a copy of it, is the user's.
    new, before = (to.with_name(f".{to.name}.excerpt-{what}") for what in ("new", "before"))
    if any(one.is_relative_to(directory) or directory.is_relative_to(one) for one in (to, new, before)):
        raise LabError(f"{to}: accepted is a folder that is neither the run's, {directory}, nor within or around it")
    put_back(before, to)
    if (other := something_else(to)) is not None:
        accepted = "a new or empty folder, or one with an excerpt alone"
        raise LabError(f"{other} is no part of a run's excerpt: accepted is {accepted}")
    shutil.rmtree(new, ignore_errors=True)
    try:
        for file in data(directory):
            target = new / file.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        if not new.exists():
            raise LabError(f"{directory} has no finished repeat: there is nothing to keep")
        write_report(new)
        size = sum(file.stat().st_size for file in new.rglob("*") if file.is_file()) / 1e6
        if size > most:
            raise LabError(f"the excerpt of {directory} would take {size:.1f} MB: at most {most:g} MB are accepted")
        shutil.rmtree(before, ignore_errors=True)
        if to.exists():
            to.rename(before)
        new.rename(to)
        shutil.rmtree(before, ignore_errors=True)
    finally:
        put_back(before, to)
        shutil.rmtree(new, ignore_errors=True)
    return to / "report.html"


def something_else(to: Path) -> Path | None:
    """Name a file that no excerpt has, such as a run's samples and logs."""
    known = {file for pattern in FILES for file in to.glob(pattern)} if (to / "report.html").exists() else set()
    return next((file for file in sorted(to.rglob("*")) if not file.is_dir() and file not in known), None)


def put_back(before: Path, to: Path) -> None:
    """Rename an excerpt back whose successor did not take its place."""
    if before.exists() and not to.exists():
        before.rename(to)


def data(directory: Path) -> Iterator[Path]:
    """List the files of all experiments that have a finished repeat."""
    for folder in runs_in(directory):
        if Store(folder).repeats():
            for pattern in DATA:
                yield from sorted(folder.glob(pattern))
