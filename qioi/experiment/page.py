"""report.html of a run (one section an experiment, as in a paper's evaluation), and index.html over runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from qioi.experiment.charts import Picture, draw, unit_of
from qioi.experiment.documents import Host
from qioi.experiment.errors import SpecError
from qioi.experiment.metrics import metric
from qioi.experiment.noise import stated
from qioi.experiment.plan import Cell
from qioi.experiment.scale import RULE
from qioi.experiment.spec import ExperimentSpec, FigureSpec, Timing
from qioi.experiment.store import Store
from qioi.experiment.summary import ABSOLUTE, Outcome, Spread, Summary, Verdict, as_json, write_csv
from qioi.lab.table import short, times

PICTURES = "pictures"
#: Seconds that the backlog of the neighbours' coming may take to go, in an open loop (docs/experiments.md).
SETTLED = 12.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a table: the median, its spread, its ratio to the cell that it is held against, and to alone."""

    value: str
    spread: str = ""
    ratio: str = ""
    grade: str = ""
    alone: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell's line in a table; ``base`` names the cell that its ratios are to."""

    title: str
    base: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of medians: a row a cell."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A row of the comparison with the paper, or with a goal; ``bound`` is the paper's ratio, or the goal's bound."""

    what: str
    bound: str
    ours: str
    values: str
    word: str
    grade: str


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
    """Draw everything in a run's folder anew, and write its page; experiments without a finished repeat wait."""
    summaries = [summary for folder in runs_in(directory) if (summary := Summary(Store(folder))).repeats]
    sections = [section(summary) for summary in summaries]
    text = (
        environment()
        .get_template("report.html.j2")
        .render(
            title="QiOi: evaluation",
            sections=sections,
            host=host_facts(summaries[0].document.host) if summaries else (),
            rule=RULE,
            criteria=stated(),
        )
    )
    path = directory / "report.html"
    path.write_text(text)
    return path


def environment() -> jinja2.Environment:
    """Set the templates up: what is undefined is an error, what is text is escaped."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def section(summary: Summary) -> Section:
    """Make one experiment's section, its pictures, and summary.json and metrics.csv beside them."""
    folder = summary.directory
    (folder / "summary.json").write_text(json.dumps(as_json(summary), indent=1) + "\n")
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
        facts=method(summary),
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


def quiet_ones(summary: Summary) -> int:
    """Count the quiet repeats."""
    return sum(repeat.quiet for repeat in summary.repeats)


def table(summary: Summary, figure: FigureSpec) -> Table:
    """Lay metrics out, a row a cell."""
    cells = summary.selected(figure)
    present = [name for name in figure.metrics if any(summary.value(cell, name) for cell in cells)]
    headings = tuple(f"{metric(name).title}, {unit_of(summary, name)}".rstrip(", ") for name in present)
    rows = tuple(
        Row(summary.title(cell), base_title(summary, cell), tuple(entry(summary, cell, name) for name in present))
        for cell in cells
    )
    return Table(figure.title, headings, rows)


def base_title(summary: Summary, cell: Cell) -> str:
    """Name the arm that a cell is held against."""
    return next((one.arm.title for one in summary.plan.cells if one.key == cell.base), "")


def entry(summary: Summary, cell: Cell, name: str) -> Entry:
    """Spell one value."""
    value, ratio = summary.value(cell, name), summary.ratio(cell, name)
    if value is None:
        return Entry("-")
    several = f"{short(value.low)} .. {short(value.high)}" if value.count > 1 else ""
    several = ", ".join(filter(None, (several, some_of(value, summary))))
    if ratio is None or name in ABSOLUTE:
        return Entry(short(value.median), several)
    return Entry(short(value.median), several, times(ratio.median), grade(name, ratio), of_alone(summary, cell, name))


def some_of(value: Spread, summary: Summary) -> str:
    """Say in how many of the repeats there was a value: a starved ledger has no latency."""
    of = len(summary.counted)
    return f"in {value.count} of {of}" if value.count < of else ""


def of_alone(summary: Summary, cell: Cell, name: str) -> str:
    """Give the ratio to the ledger alone too, where a cell is held against another one."""
    alone = f"{cell.network_name}.{cell.load_name}.{summary.alone.name}"
    if summary.alone.neighbours.count or cell.base in {None, alone} or not metric(name).better:
        return ""
    ratio = summary.ratio(cell, name, alone)
    return times(ratio.median) if ratio else ""


def grade(name: str, ratio: Spread) -> str:
    """Colour a ratio that all repeats put on the same side of 1 by more than a tenth."""
    better = metric(name).better
    if not better or (ratio.low < 1 < ratio.high) or 0.9 <= ratio.median <= 1.1:
        return ""
    return "good" if (ratio.median > 1) == (better > 0) else "bad"


def claim(verdict: Verdict, summary: Summary) -> Claim:
    """Spell a sentence of the paper beside ours."""
    word = verdict.word if summary.trusted or verdict.agrees is None else f"{verdict.word} (not trusted)"
    values = ""
    if verdict.values is not None:
        unit = unit_of(summary, verdict.metric)
        values = " to ".join(short(value) for value in verdict.values) + f" {unit}"
    # The paper's own digits are not rounded away.
    bound, ours = max(times(verdict.paper), f"{verdict.paper:.3g}x", key=len), ranged(verdict.ours, times, summary)
    return Claim(verdict.what, bound, ours, values.strip(), word, graded(verdict.agrees, summary))


def goal(outcome: Outcome, summary: Summary) -> Claim:
    """Spell a goal beside what was found."""
    spell = percent if outcome.metric == "neighbours.due" else short if outcome.metric in ABSOLUTE else finely
    words = {True: "reached", False: "not reached", None: "not measured"}
    word = words[outcome.reached]
    if outcome.ours is not None:
        if 0 < outcome.often < outcome.of:
            word += f" (in {outcome.often} of {counted(outcome.of, 'repeat')})"
        word += "" if summary.trusted else " (not trusted)"
    bound = f"at least {spell(outcome.least)}" if outcome.least is not None else f"at most {spell(outcome.most or 0)}"
    return Claim(outcome.what, bound, ranged(outcome.ours, spell, summary), "", word, graded(outcome.reached, summary))


def ranged(ours: Spread | None, spell: Callable[[float], str], summary: Summary) -> str:
    """Spell a median, with the least and the most."""
    if ours is None:
        return "-"
    several = f" ({spell(ours.low)} .. {spell(ours.high)})" if ours.count > 1 else ""
    return " ".join(filter(None, (spell(ours.median) + several, some_of(ours, summary))))


def percent(value: float) -> str:
    """Spell a part that is in % already."""
    return f"{value:.0f} %"


def finely(ratio: float) -> str:
    """Spell a ratio that one hundredth decides about."""
    return f"{ratio:.3f}x" if ratio < 2 else times(ratio)


def graded(good: bool | None, summary: Summary) -> str:
    """Colour a sentence, where it may be trusted."""
    return {True: "good", False: "bad", None: ""}[good] if summary.trusted else ""


def tally(found: Sequence[bool | None]) -> str:
    """Count what is so."""
    return f"{sum(one is True for one in found)} of {len(found)}" if found else "-"


def method(summary: Summary) -> tuple[tuple[str, str], ...]:
    """Say how it was measured."""
    spec, timing = summary.spec, summary.plan.cells[0].timing
    networks = "; ".join(
        f"{network.title or name}: {counted(network.orgs * network.peers_per_org, 'peer')}, "
        f"{counted(network.orderers, 'orderer')}, "
        f"{network.consenter}, {network.mode} mode, {', '.join(network.chaincodes)}"
        for name, network in spec.networks.items()
    )
    loads = "; ".join(filter(None, (*(load.title or name for name, load in spec.loads.items()), owed(summary))))
    maxima = ", ".join(f"{name} {value:.0f} tps" for name, value in summary.document.maxima.items())
    numbers = ", ".join(str(repeat.number) for repeat in summary.counted)
    facts = [
        ("Ledger", networks),
        ("Load", loads + (f" (maximum found: {maxima})" if maxima else "")),
        ("Each cell", f"{timing.warmup:g} s warm-up left out, {timing.duration:g} s measured{shortened(spec, timing)}"),
        ("Repeats", f"{len(summary.repeats)} finished, medians of {len(summary.counted)} (number {numbers})"),
    ]
    if any(arm.neighbours.count for arm in spec.arms):
        facts.append(("Sizes", "the paper's own counts" if summary.plan.paper_size else RULE))
    if resumed := summary.document.resumed:
        facts.append(("Gone on", ", ".join(map(begun, resumed))))
    if summary.plan.same:
        pairs = ", ".join(f"{one} = {other}" for one, other in summary.plan.same.items())
        facts.append(("The same here", f"{pairs} (scaled to {summary.plan.cores} cores)"))
    return tuple(facts)


def shortened(spec: ExperimentSpec, timing: Timing) -> str:
    """Say what the experiment's file asks for, where a run was asked for something else."""
    file = spec.timing
    if (file.warmup, file.duration) == (timing.warmup, timing.duration):
        return ""
    return f" (the experiment's own: {file.warmup:g} s, {file.duration:g} s)"


def owed(summary: Summary) -> str:
    """Say what each tenant of a load is offered and owed, where its maximum is known."""
    maximum = summary.document.maxima.get(next(iter(summary.spec.networks)))
    if maximum is None:
        return ""
    return "; ".join(
        f"{channel}: {maximum * one.part:,.0f} tps offered, {maximum * one.threshold:,.0f} owed"
        for load in summary.spec.loads.values()
        for channel, one in load.tenants.items()
    )


def begun(host: Host) -> str:
    """Say when, and with which version, a run was begun or gone on with."""
    commit = host.versions.get("commit")
    return f"{host.at} (commit {commit})" if commit else host.at


def warnings(summary: Summary) -> list[str]:
    """Say why figures are not to be trusted."""
    found = []
    if summary.plan.smoke:
        found.append("A smoke run: everything is real, and too short for any figure to mean something.")
    elif not summary.trusted:
        found.append(
            f"Not to be trusted: {counted(quiet_ones(summary), 'quiet repeat')} of {summary.plan.repeats} that were "
            "asked for."
        )
    timing = summary.plan.cells[0].timing
    if not summary.plan.smoke and timing.settling < SETTLED and any(map(settles, summary.plan.cells)):
        found.append(
            f"The window begins {timing.settling:.1f} s after the neighbours' coming, not {SETTLED:g}: a backlog of "
            "their coming may be in it."
        )
    if summary.noisy:
        shown = (
            "none is quiet, so the noisy ones are shown" if summary.counted == summary.noisy else "left out of medians"
        )
        for repeat in summary.noisy:
            key, said = next(iter(repeat.noise.items()))
            where = next((summary.title(cell) for cell in summary.plan.cells if cell.key == key), key)
            more = f" (and {counted(len(repeat.noise) - 1, 'more cell')})" if len(repeat.noise) > 1 else ""
            found.append(f"Repeat {repeat.number} was too noisy, {shown}: {where}: {'; '.join(said)}{more}.")
    for name, noise in summary.document.probe_noise.items():
        if noise:
            found.append(
                f"Loads that are parts of the maximum of {name}, and T, may be too low: while it was looked for "
                f"{'; '.join(noise)}."
            )
    found += [f"A repeat was lost: {text}" for text in summary.document.lost]
    return found


def settles(cell: Cell) -> bool:
    """Whether a backlog of the neighbours' coming has to go: at a part of the maximum, where they come and stay."""
    busy = cell.load.part is not None or bool(cell.load.tenants)
    return busy and bool(cell.arm.neighbours.count) and cell.arm.neighbours.come is None


def counted(number: int, what: str) -> str:
    """Spell a number of things."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def host_facts(host: Host) -> tuple[tuple[str, str], ...]:
    """Describe the machine, from run.json."""
    versions = ", ".join(f"{name}: {text}" for name, text in host.versions.items())
    pressure = "; ".join(f"{kind}: {text}" for kind, text in host.pressure.items() if text)
    return (
        ("Machine", f"{host.cpu}, {host.cores} cores, {host.memory_gib:g} GiB"),
        ("Kernel", f"Linux {host.kernel}, cgroup {host.cgroup_hierarchies}, CPU by v{host.cgroup_version}"),
        ("Group weights", host.cgroup_mode),
        ("Virtual", "yes: what the hypervisor takes shows as steal" if host.hypervisor else "no"),
        ("Load before", " ".join(f"{value:.2f}" for value in host.load_average)),
        ("Pressure before", pressure),
        ("Versions", versions),
        ("Seed", str(host.seed)),
        ("Begun", begun(host)),
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One run in the index."""

    link: str
    name: str
    when: str
    experiments: str
    host: str = ""
    verdicts: str = ""
    goals: str = ""
    trusted: str = ""


def write_index(parent: Path) -> Path:
    """List every run below ``parent`` that has a page, the newest first; one that cannot be read is said to be so."""
    lines: list[Line] = []
    for page in parent.glob("*/report.html"):
        try:
            lines += [index_line(page)] if runs_in(page.parent) else []
        except (SpecError, KeyError, TypeError, ValueError) as error:
            lines.append(Line(f"{page.parent.name}/report.html", page.parent.name, "", f"not readable: {error}"))
    lines.sort(key=lambda line: (line.when, line.name), reverse=True)
    path = parent / "index.html"
    path.write_text(environment().get_template("index.html.j2").render(lines=lines))
    return path


def index_line(page: Path) -> Line:
    """Condense one run."""
    folders = runs_in(page.parent)
    first = Store(folders[0]).document
    files = [folder / "summary.json" for folder in folders]
    summaries = [json.loads(file.read_text()) for file in files if file.exists()]
    trusted = [found for found in summaries if found["trusted"]]
    papers = [one["agrees"] for found in trusted for one in found["papers"]]
    goals = [one["reached"] for found in trusted for one in found.get("goals", [])]
    host = first.host
    smoke = " (smoke)" if first.smoke else ""
    return Line(
        link=f"{page.parent.name}/report.html",
        name=page.parent.name + smoke,
        when=host.at.replace("T", " ").removesuffix("Z"),
        experiments=", ".join(folder.name for folder in folders),
        host=f"{host.cores} cores, Linux {host.kernel}, {host.versions.get('commit', 'no commit')}",
        verdicts=f"{tally(papers)} sentences agree" if papers else "",
        goals=f"{tally(goals)} reached" if goals else "",
        trusted=f"{len(trusted)} of {len(summaries)}",
    )
