"""Experiments in documents: what `make experiments` has kept in docs/experiments, as the experiments' own page has it.

    <!-- experiment fig_9 claims -->
    …
    <!-- /experiment -->

    <!-- experiment fig_9 values metrics=throughput,mean arms=alone,s16 network=kafka load=saturating -->
    …
    <!-- /experiment -->

    Kafka agrees: <!-- outcome fig_9 -->4 of 5 sentences agree<!-- /outcome -->

``claims`` are the papers' sentences and the project's goals, as the experiment's file has them today, beside what came
out of the kept run; ``values`` are a row for each cell.
`make figures` fills them, and a test holds every document to the kept runs. The marks say which experiment was not
kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from published.documents import fill
from qioi.experiment.calibration import speed
from qioi.experiment.errors import SpecError
from qioi.experiment.method import quiet_ones, warnings
from qioi.experiment.spec import ArmSpec, ExperimentSpec, FigureSpec, SentenceSpec
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary
from qioi.experiment.system import LoadSpec, NetworkSpec
from qioi.experiment.tables import Entry, Row, table
from qioi.experiment.verdicts import Claim, claim, goal

_TABLE = re.compile(
    r"(?P<head><!-- experiment (?P<name>\w+) (?P<kind>claims|values)(?P<options>(?: \w+=[\w.,-]+)*) -->\n)"
    r"(?P<body>.*?)(?P<tail><!-- /experiment -->)",
    re.DOTALL,
)
_OUTCOME = re.compile(r"(?P<head><!-- outcome (?P<name>\w+) -->)(?P<body>[^<\n]*)(?P<tail><!-- /outcome -->)")
_MARK = re.compile(r"<!-- /?(?:experiment|outcome)\b[^>]*-->")
#: Options of ``values``, and which of them are lists.
_OPTIONS = {"metrics": True, "arms": True, "loads": True, "load": False, "network": False}
NOT_MEASURED = "not measured"
#: A name that no network has.
NOWHERE = "-"


class ExperimentDrawer:
    """Draws kept runs into documents.

    ``known`` are all experiments by name; a run of one may be missing. ``has_changed`` tells whether a run's code is
    another one today.
    """

    def __init__(self, kept: Path, known: Mapping[str, ExperimentSpec], has_changed: Callable[[Summary], bool]) -> None:
        self._kept = kept
        self._known = known
        self._has_changed = has_changed
        self._read: dict[str, Summary | None] = {}

    def draw(self, text: str, document: str) -> str:
        """Give a document's text with every table as its run has it; ValueError names what can't be drawn."""
        return fill(text, document, _MARK, {_TABLE: self._table, _OUTCOME: self._outcome})

    def summaries(self) -> Iterator[Summary]:
        """Give all runs that were kept."""
        return filter(None, (self._summary(name, str(self._kept)) for name in self._known))

    def _summary(self, name: str, document: str) -> Summary | None:
        """Read a run once; ``None``: it was not kept."""
        if name not in self._known:
            raise ValueError(f"{document}: no experiment {name!r}; qioi experiment list has them all")
        if name not in self._read:
            store = Store(self._kept / name)
            try:
                found = Summary(store) if store.begun else None
            except SpecError as error:
                raise ValueError(f"{document}: {'; '.join(error.problems)}") from error
            if found is not None:
                found.spec = said_today(found.spec, self._known[name])
            self._read[name] = found if found and found.repeats else None
        return self._read[name]

    def _outcome(self, found: re.Match[str], document: str) -> str:
        summary = self._summary(found["name"], document)
        return NOT_MEASURED if summary is None else outcome(summary)

    def _table(self, found: re.Match[str], document: str) -> str:
        summary = self._summary(found["name"], document)
        if summary is None:
            return "Not measured yet.\n"
        if found["kind"] == "claims":
            lines = claims(summary)
        else:
            try:
                lines = values(summary, dict(part.split("=", 1) for part in found["options"].split()))
            except ValueError as error:
                raise ValueError(f"{document}: experiment {found['name']}: {error}") from error
        return "\n".join([*lines, "", label(summary, self._has_changed(summary)), ""])


def said_today(its: ExperimentSpec, today: ExperimentSpec) -> ExperimentSpec:
    """Give a run's experiment with the sentences and goals that its file has today.

    The file may have been mended since: what a paper does not say is none of its sentences. What is about cells that
    the run does not have, or has under names that mean something else today, is not measured.
    """
    network, load = next(iter(today.networks)), next(iter(today.loads))

    def placed(one: SentenceSpec) -> SentenceSpec:
        whole = one.model_copy(update={"network": one.network or network, "load": one.load or load})
        same = named(its, whole) == named(today, whole)
        return whole if same else whole.model_copy(update={"network": NOWHERE})

    return its.model_copy(update={"papers": [*map(placed, today.papers)], "goals": [*map(placed, today.goals)]})


def named(spec: ExperimentSpec, one: SentenceSpec) -> list[dict[str, object] | None]:
    """Give all that a sentence names, as a file has it, but for titles; ``None`` where the file does not have it.

    An arm brings the one that it is compared with.
    """
    arms = {arm.name: arm for arm in spec.arms}
    named_arms = [arms.get(name) for name in (one.arm, one.of) if name]
    parts: list[NetworkSpec | LoadSpec | ArmSpec | None] = [
        *(spec.networks.get(name) for name in (one.network, one.of_network) if name),
        *(spec.loads.get(name) for name in (one.load, one.of_load) if name),
        *named_arms,
        *(arms[arm.against] for arm in named_arms if arm and arm.against),
    ]
    return [None if part is None else part.model_dump(exclude={"title"}) for part in parts]


def claims(summary: Summary) -> list[str]:
    """Lay the papers' sentences and the goals out as Markdown."""
    rows = [(one, "paper") for one in (claim(verdict, summary) for verdict in summary.verdicts())]
    rows += [(one, "goal") for one in (goal(its, summary) for its in summary.outcomes())]
    return ["| | there | here | from, to | |", "| --- | --- | --- | --- | --- |", *(spelled(*row) for row in rows)]


def spelled(one: Claim, kind: str) -> str:
    """Write one sentence or goal as a row."""
    bound = one.bound if kind == "paper" else f"goal: {one.bound}"
    return row((one.what, bound, one.ours, one.values or "-", one.word))


def values(summary: Summary, options: Mapping[str, str]) -> list[str]:
    """Lay cells out as Markdown, a row each; ValueError says which option there is not."""
    if unknown := options.keys() - _OPTIONS.keys():
        raise ValueError(f"no option {', '.join(sorted(unknown))}; there are {', '.join(_OPTIONS)}")
    if "metrics" not in options:
        raise ValueError("metrics= is missing")
    wanted = {key: text.split(",") if _OPTIONS[key] else text for key, text in options.items()}
    found = table(summary, FigureSpec.model_validate({"kind": "table", "title": "values", **wanted}))
    if not found.rows:
        raise ValueError(f"no cell has {', '.join(f'{key}={text}' for key, text in options.items())}")
    head = ["", *found.headings]
    return [row(head), "| --- |" + " --- |" * len(found.headings), *rows(found.rows)]


def rows(found: Sequence[Row]) -> Iterator[str]:
    """Write a table's rows."""
    for one in found:
        yield row((one.title, *map(cell, one.entries)))


def cell(entry: Entry) -> str:
    """Write one value with its spread, and its ratios to the arm that it is compared with and to alone."""
    spread = f" ({entry.spread})" if entry.spread else ""
    ratios = ", ".join(filter(None, (entry.ratio, entry.alone and f"{entry.alone} of alone")))
    return f"{entry.value}{spread}" + (f"; {ratios}" if ratios else "")


def row(cells: Sequence[str]) -> str:
    """Write a row; a bar within a cell would end it."""
    return "| " + " | ".join(text.replace("|", "/") for text in cells) + " |"


def label(summary: Summary, has_changed: bool) -> str:
    """Say of what, when and where it was measured, whether its code has changed since, and what its figures lack."""
    host = summary.document.host
    day = host.at.split()[0].split("T")[0]
    asked = summary.document.command or command(summary)
    changed = " (**its code has changed since**)" if has_changed else ""
    text = (
        f"*By experiment, {day}, `{host.versions.get('commit', 'unknown')}`*: `{asked}`{changed}, "
        f"{quiet_ones(summary)} quiet of {len(summary.repeats)} repeats; {host.cores} cores, Linux {host.kernel}, "
        f"cgroup v{host.cgroup_version}"
    )
    if speeds := summary.calibrations:
        text += f"; calibration: {speed(speeds)}"
    return " ".join([f"{text}.", *warnings(summary)])


def command(summary: Summary) -> str:
    """Give the command of a run that did not keep its own."""
    timing, standard = summary.document.timing, summary.spec.standard
    is_standard = standard is None or (timing.warmup, timing.duration) == (standard.warmup, standard.duration)
    options = " --standard" * is_standard + " --paper-size" * summary.plan.paper_size
    return f"qioi experiment run {summary.spec.name}{options}"


def outcome(summary: Summary) -> str:
    """Sum a run up in a few words."""
    verdicts = summary.verdicts()
    reached = [one.reached for one in summary.outcomes()]
    parts = []
    if verdicts:
        agree = [one.agrees for one in verdicts if one.ours is not None]
        rest = {"open": agree.count(None), NOT_MEASURED: len(verdicts) - len(agree)}
        still = [f"{count} {word}" for word, count in rest.items() if count]
        parts.append(", ".join([f"{agree.count(True)} of {len(verdicts)} sentences agree", *still]))
    if known := len(reached) - reached.count(None):
        unknown = f", {len(reached) - known} {NOT_MEASURED}" if known < len(reached) else ""
        parts.append(f"{reached.count(True)} of {len(reached)} goals reached{unknown}")
    elif reached:
        parts.append(f"its {len(reached)} goals are not measured")
    doubt = [] if summary.trusted else ["too noisy to be trusted"]
    return "; ".join([*(parts or ["measured"]), *doubt])
