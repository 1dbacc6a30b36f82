"""report.html: one self-contained page, made from the figures of one run."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qioi.kernel.extras import installs
from qioi.lab.figures import ArmFigures, ratios
from qioi.lab.machine import Machine
from qioi.lab.result_table import Row, build_rows, milliseconds, percent, times
from qioi.processes.errors import LabError

TEMPLATE = "report.html.j2"
#: More than this of the CPU time taken by the hypervisor, or used by others, and the page says so.
NOISE = 0.03


@dataclass(frozen=True, slots=True)
class Card:
    """One headline figure."""

    what: str
    value: str
    context: str


@dataclass(frozen=True, slots=True)
class Page:
    """The page's texts."""

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    config: str | None = None
    files: tuple[str, ...] = ()


def write_report(path: Path, page: Page, arms: Sequence[ArmFigures], host: Machine) -> None:
    """Write the page. The arms come in the order alone, together, with QiOi."""
    import jinja2  # here: a command's help must not need the extra `lab`

    from qioi.lab.plots import PLOTS, draw

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(TEMPLATE).render(
        title=page.title,
        lead=page.lead,
        notes=noise_notes(arms, host.cores),
        cards=headline(arms, host.cores),
        headings=[arm.title for arm in arms],
        rows=build_rows(arms, host.cores),
        has_ratios=len(arms) > 1,
        table_note=(
            "Beside each value: against “alone” of the same run. Scheduling delay is the mean wait per time slice. "
            "sysbench is compared with its due: the CPU time that ledger and client leave free when they run alone, "
            "times sysbench's own events per core-second."
        ),
        pictures=[{"name": plot.name, "title": plot.title, "svg": draw(plot, arms)} for plot in PLOTS],
        facts=(*page.facts, *machine_facts(arms, host)),
        config=page.config,
        files=page.files,
    )
    path.write_text(text, encoding="utf-8")


def headline(arms: Sequence[ArmFigures], cores: int) -> list[Card]:
    """Give the result in four figures; it needs all three arms."""
    if len(arms) < 3:
        return []
    alone, together, protected = arms[0], arms[1], arms[2]
    without, with_qioi = ratios(together, alone, cores), ratios(protected, alone, cores)
    cards = [
        Card(
            "Throughput with QiOi",
            f"{percent(with_qioi.throughput)}",
            f"of alone; without: {percent(without.throughput)}",
        ),
        Card(
            "Latency p95 with QiOi",
            milliseconds(protected.load.p95),
            f"{times(with_qioi.p95)} alone; without: {milliseconds(together.load.p95)}, {times(without.p95)}",
        ),
        Card(
            "Latency p99 with QiOi",
            milliseconds(protected.load.p99),
            f"{times(with_qioi.p99)} alone; without: {milliseconds(together.load.p99)}, {times(without.p99)}",
        ),
    ]
    if with_qioi.interferer_due is not None:
        got = f"{protected.interferer.events:,.0f} events/s; without QiOi {together.interferer.events:,.0f}"
        cards.append(Card("sysbench got of its due", percent(with_qioi.interferer_due), got))
    return cards


def noise_notes(arms: Sequence[ArmFigures], cores: int) -> list[str]:
    """Name the arms in which something else than the lab had CPU time: such a run proves less."""
    notes = []
    for arm in arms:
        ours = arm.ledger_cores + arm.client_cores + arm.interferer.cores + arm.daemon_cores
        others = (arm.quiet.cores_busy - ours) / cores
        if arm.quiet.steal > NOISE:
            notes.append(f"“{arm.title}”: the hypervisor took {percent(arm.quiet.steal)} of the CPU time for others.")
        if others > 2 * NOISE:
            who = "the kernel's threads, this measurement and processes outside the lab"
            notes.append(f"“{arm.title}”: {who} used {percent(others)} of the machine.")
    return notes


def machine_facts(arms: Sequence[ArmFigures], host: Machine) -> tuple[tuple[str, str], ...]:
    """Describe the machine and how quiet it was."""
    quiet = "; ".join(
        f"{arm.title}: {arm.quiet.cores_busy:.2f} of {host.cores} cores busy, steal {percent(arm.quiet.steal)}"
        + (f", some task waited {percent(arm.quiet.pressure)} of the time" if arm.quiet.pressure is not None else "")
        for arm in arms
    )
    return (
        ("Machine", f"{host.cpu}, {host.cores} cores, {host.memory_gib:g} GiB"),
        ("Kernel", f"Linux {host.kernel}, cgroup v{host.cgroup_version}"),
        ("Load before", f"{host.load_average:.2f} (1 minute)"),
        ("Meanwhile", quiet),
    )


def markdown(arms: Sequence[ArmFigures], cores: int) -> str:
    """Format the final table for a README."""
    lines = ["| | " + " | ".join(arm.title for arm in arms) + " |", "| --- |" + " --- |" * len(arms)]
    lines += [markdown_row(row) for row in build_rows(arms, cores)]
    return "\n".join(lines) + "\n"


def markdown_row(row: Row) -> str:
    """Format one line."""
    if row.heading:
        return f"| **{row.label}** |" + " |" * 3
    entries = (f"{entry.value} ({entry.ratio})" if entry.ratio else entry.value for entry in row.entries)
    return f"| {row.label} | " + " | ".join(entries) + " |"


def needs_plots() -> None:
    """Raise if what draws the report is missing, so that it is known before hours of measuring."""
    for module in ("jinja2", "matplotlib"):
        if importlib.util.find_spec(module) is None:
            raise LabError(f"{module} is not installed: `{installs('lab')}` brings it")
