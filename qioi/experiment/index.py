"""index.html: a line for each run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from qioi.experiment.errors import SpecError
from qioi.experiment.page import environment, runs_in
from qioi.experiment.run_files import Host
from qioi.experiment.store import Store
from qioi.experiment.verdicts import tally
from qioi.experiment.whole import replace_text


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
    replace_text(path, environment().get_template("index.html.j2").render(lines=lines))
    return path


def machine_of(host: Host) -> str:
    """Say on what an experiment ran, and of which commit."""
    return f"{host.cores} cores, Linux {host.kernel}, {host.versions.get('commit', 'no commit')}"


def index_line(page: Path) -> Line:
    """Condense one run."""
    folders = runs_in(page.parent)
    documents = [Store(folder).document for folder in folders]
    first, hosts = documents[0], [one.host for one in documents]
    files = [folder / "summary.json" for folder in folders]
    summaries = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    trusted = [found for found in summaries if found["trusted"]]
    papers = [one["agrees"] for found in trusted for one in found["papers"]]
    goals = [one["reached"] for found in trusted for one in found.get("goals", [])]
    smoke = " (smoke)" if first.smoke else ""
    return Line(
        link=f"{quote(page.parent.name)}/report.html",
        name=page.parent.name + smoke,
        when=first.host.at.replace("T", " ").removesuffix("Z"),
        experiments=", ".join(folder.name for folder in folders),
        host="; ".join(dict.fromkeys(map(machine_of, hosts))),
        verdicts=f"{tally(papers)} sentences agree" if papers else "",
        goals=f"{tally(goals)} reached" if goals else "",
        trusted=f"{len(trusted)} of {len(folders)}",
    )
