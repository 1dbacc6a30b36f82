"""report.html of a run: one section per experiment, as in a paper's evaluation."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import jinja2

from qioi.experiment.charts import Picture, draw
from qioi.experiment.method import host_facts, method, quiet_ones, shared_facts, warnings
from qioi.experiment.noise import stated
from qioi.experiment.scale import RULE
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary, as_json, write_csv
from qioi.experiment.tables import Table, table
from qioi.experiment.verdicts import Claim, claim, goal, tally
from qioi.experiment.whole import replace_text

PICTURES = "pictures"


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment on the page."""

    name: str
    title: str
    paper: str
    question: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    items: tuple[Table | Picture, ...]
    claims: tuple[Claim, ...]
    goals: tuple[Claim, ...]
    raw: tuple[str, ...]
    counts: tuple[str, str, str]


def runs_in(directory: Path) -> list[Path]:
    """List the folders of the experiments in a run's folder, in the order in which they were begun."""
    found = [(Store(file.parent).document.host.at, file.parent) for file in directory.glob("*/run.json")]
    return [folder for _, folder in sorted(found)]


def write_report(directory: Path) -> Path:
    """Draw a run's pictures anew and write its page, without the experiments that have no finished repeat."""
    summaries = [summary for folder in runs_in(directory) if (summary := Summary(Store(folder))).repeats]
    host = shared_facts([summary.document.host for summary in summaries])
    sections = [section(summary, host) for summary in summaries]
    text = (
        environment()
        .get_template("report.html.j2")
        .render(
            title="QiOi: evaluation",
            sections=sections,
            host=host,
            rule=RULE,
            criteria=stated(),
        )
    )
    path = directory / "report.html"
    replace_text(path, text)
    return path


def environment() -> jinja2.Environment:
    """Set the templates up: an undefined name is an error, and text is escaped."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def section(summary: Summary, said: Collection[tuple[str, str]]) -> Section:
    """Make one experiment's section, its pictures, and summary.json and metrics.csv beside them.

    ``said`` are the facts of its host that the page says of all experiments.
    """
    folder = summary.directory
    replace_text(folder / "summary.json", json.dumps(as_json(summary), indent=1, allow_nan=False) + "\n")
    write_csv(summary, folder / "metrics.csv")
    items: list[Table | Picture] = []
    for number, figure in enumerate(summary.spec.figures):
        if figure.kind == "table":
            items.append(table(summary, figure))
        else:
            items.append(draw(summary, figure, folder / PICTURES, f"{number + 1}-{figure.kind}"))
    spec = summary.spec
    verdicts, outcomes = summary.verdicts(), summary.outcomes()
    files = ("run.json", "summary.json", "metrics.csv")
    return Section(
        name=folder.name,
        title=spec.title,
        paper=spec.paper,
        question=spec.question,
        facts=(*method(summary), *(fact for fact in host_facts(summary.document.host) if fact not in said)),
        warnings=tuple(warnings(summary)),
        notes=tuple(spec.notes),
        items=tuple(items),
        claims=tuple(claim(verdict, summary) for verdict in verdicts),
        goals=tuple(goal(outcome, summary) for outcome in outcomes),
        raw=tuple(f"{folder.name}/{name}" for name in files),
        counts=(
            "smoke" if summary.plan.smoke else f"{quiet_ones(summary)} of {summary.plan.repeats}",
            tally([verdict.agrees for verdict in verdicts if summary.trusted]),
            tally([outcome.reached for outcome in outcomes if summary.trusted]),
        ),
    )
