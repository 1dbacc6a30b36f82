#!/usr/bin/env python3
"""Published figures: `measure` what is missing or out of date (make publish), `draw` the documents (make figures).

python benchmarks/publish.py measure [--piece NAME ...] [--again] [--draw]
python benchmarks/publish.py draw [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from published import curves, pictures, record, visits
from published.documents import Drawer
from published.experiments import ExperimentDrawer
from published.measure import UnmeasuredError, build_ledger, is_current, measure
from published.pieces import PIECES, Piece
from published.record import Record
from published.run_code import RunCode
from published.visits import VisitDrawer

from qioi.experiment import catalogue
from qioi.lab.lock import exclusive
from qioi.lab.signals import ending_signals_interrupt
from qioi.processes.errors import LabError

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "figures" / "data"
VISITS = DATA.with_name("visits")
#: What `make experiments` keeps.
EXPERIMENTS = ROOT / "docs" / "experiments"
RUN_CODE = RunCode(ROOT, ROOT / "docs" / "figures" / "runs.json")
EXPERIMENT_FIGURES = ExperimentDrawer(EXPERIMENTS, catalogue.bundled(), RUN_CODE.has_changed)


def documents() -> list[Path]:
    """Where figures may stand."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def pictured(records: Mapping[str, Record]) -> Iterator[tuple[str, bool, Callable[[], None]]]:
    """Give each picture whose record there is: its file, whether it is as it should be, and what draws it anew."""
    folder = DATA.parent
    for picture in pictures.PICTURES:
        if its := records.get(picture.record):
            current = pictures.is_current(folder / picture.file, picture, its)
            yield picture.file, current, partial(pictures.draw, picture, its, folder)
    for grown in curves.CURVES:
        if its := records.get(grown.record):
            current = pictures.is_current(folder / grown.file, grown, its)
            yield grown.file, current, partial(curves.draw, grown, its, folder)


@click.group()
def main() -> None:
    """Measure what is published, and draw it into the documents."""


@main.command("measure")
@click.option(
    "--piece", "names", type=click.Choice([piece.name for piece in PIECES]), multiple=True, help="These only."
)
@click.option("--again", is_flag=True, help="Also those whose code has not changed since.")
@click.option("--more", is_flag=True, help="Add repeats to those whose code has not changed since.")
@click.option("--draw", "draws", is_flag=True, help="Then draw the documents, also where a piece failed.")
@click.option("--results", type=click.Path(file_okay=False, path_type=Path), default=ROOT / "results" / "published")
@click.option(
    "--fabric",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Real Fabric's binaries, as `qioi lab up --binaries` takes them; without it its pieces are left out.",
)
@click.pass_context
def measure_pieces(
    ctx: click.Context,
    names: tuple[str, ...],
    again: bool,
    more: bool,
    draws: bool,
    results: Path,
    fabric: Path | None,
) -> None:
    """Measure piece by piece. What is done is kept: after an interruption, run it again."""
    wanted = [piece for piece in PIECES if piece.name in names or not names]
    for piece in tuple(wanted):
        unnamed = piece.needs_fabric and fabric is None
        if why := "--fabric DIR names the binaries that it needs" if unnamed else piece.lacks():
            click.echo(f"{piece.name} is left out: {why}")
            wanted.remove(piece)
    known = {piece.name for piece in wanted if is_current(piece, ROOT, DATA)}
    due = [piece for piece in wanted if again or more or piece.name not in known]
    click.echo(f"{len(due)} of {len(wanted)} pieces to measure, about {sum(piece.minutes for piece in due)} minutes")
    try:
        with exclusive(
            "qioi-publish", "another `publish.py measure` of this user's is at work on this host; wait for it to end"
        ):
            failed = measured(due, known, more, results, fabric)
    except LabError as error:
        raise click.ClickException(str(error)) from error
    if draws:
        ctx.invoke(draw)
    if failed:
        raise click.ClickException(f"not measured: {', '.join(failed)}")


def measured(due: Sequence[Piece], known: Container[str], more: bool, results: Path, fabric: Path | None) -> list[str]:
    """Measure these pieces and keep their records; name those that failed."""
    failed = []
    for piece in due:
        click.echo(f"== {piece.name}: {piece.title} (about {piece.minutes} minutes)")
        try:
            file = DATA / f"{piece.name}.json"
            before = record.load(file) if file.exists() else None
            earlier = before if more and piece.name in known else None
            with ending_signals_interrupt():
                build_ledger(ROOT)
                its = measure(piece, ROOT, results, fabric, earlier)
            if before is not None and earlier is None:
                visits.keep(before, VISITS)
            kept = record.save(its, DATA)
        except (LabError, UnmeasuredError, ValueError) as error:
            click.echo(f"Error: {error}", err=True)
            failed.append(piece.name)
            continue
        click.echo(f"{kept.relative_to(ROOT)} is written")
    return failed


@main.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a document differs from its data.")
def draw(check: bool) -> None:
    """Put the figures into README and docs, and draw the pictures."""
    try:
        records = record.load_all(DATA)
        differing = [*learned(check), *drawn(records, check)]
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    for picture, current, paint in pictured(records):
        if not current:
            differing.append(picture)
            if not check:
                paint()
    if check and differing:
        raise click.ClickException(f"not as docs/figures/data has it (make figures): {', '.join(differing)}")
    click.echo(f"changed: {', '.join(differing) or 'nothing'}")


def learned(check: bool) -> Iterator[str]:
    """Keep what new runs of experiments were made by; name the file if that is so."""
    if not check and RUN_CODE.learn(EXPERIMENT_FIGURES.summaries()):
        yield str(RUN_CODE.file.relative_to(ROOT))


def drawn(records: Mapping[str, Record], check: bool) -> Iterator[str]:
    """Draw the figures of the records and of the experiments into the documents; name those that change."""
    drawers = (Drawer(ROOT, records, PIECES), VisitDrawer(records, VISITS), EXPERIMENT_FIGURES)
    for file in documents():
        text, name = file.read_text(encoding="utf-8"), str(file.relative_to(ROOT))
        its = text
        for drawer in drawers:
            its = drawer.draw(its, name)
        if its != text:
            yield name
            if not check:
                file.write_text(its, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
