"""What is made of the runs of experiments: their pages, excerpts, and the index over them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from qioi.experiment.store import Store
from qioi.processes.errors import LabError

#: Where runs go by default, each into a folder of its own, with an index over all.
RESULTS = Path("results", "experiments")


def report_of(directory: Path, console: Console) -> None:
    """Write the page of a run, if there is something to show; of a run in :data:`RESULTS` the index there, too."""
    if page_of(directory, console) and directory.parent == RESULTS.resolve():
        index_of(directory.parent, console)


def page_of(directory: Path, console: Console) -> bool:
    """Write the page of a run; ``False``: there is nothing to show."""
    from qioi.experiment.page import runs_in, write_report

    with drawing("page", directory):
        if not any(Store(folder).repeats() for folder in runs_in(directory)):
            return False
        console.print(f"report: {write_report(directory)}", soft_wrap=True)
        return True


@contextlib.contextmanager
def drawing(what: str, directory: Path) -> Iterator[None]:
    """Say in one line why what is made of a run cannot be."""
    try:
        yield
    except OSError as error:
        raise LabError(f"the {what} of {directory} cannot be written: {error}") from error
    except KeyError as error:  # this version has dropped or renamed a metric of the run's figures
        raise LabError(f"{directory} cannot be drawn by this version, which does not know {error}") from error


def excerpt_of(directory: Path, to: Path, console: Console) -> None:
    """Write what of a run is committed."""
    from qioi.experiment.excerpt import write_excerpt

    with drawing("excerpt", directory):
        console.print(f"excerpt: {write_excerpt(directory, to)}", soft_wrap=True)


def report_after(failure: BaseException, directory: Path, console: Console) -> None:
    """Write the page of the finished repeats after a run failed; the run's own error goes first."""
    try:
        report_of(directory, console)
    except LabError as error:
        if str(error) != str(failure):
            console.print(str(error), style="red", soft_wrap=True)


def index_of(parent: Path, console: Console) -> None:
    """Write the index over all runs in a folder."""
    from qioi.experiment.index import write_index

    with drawing("index", parent):
        console.print(f"index: {write_index(parent)}", soft_wrap=True)
