"""What an experiment's page says beside a paper's sentence, and beside a goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qioi.experiment.charts import unit_of
from qioi.experiment.method import counted
from qioi.experiment.metrics import metric
from qioi.experiment.summary import ABSOLUTE, Outcome, Spread, Summary, Verdict
from qioi.experiment.tables import multiple, some_of
from qioi.lab.result_table import short, times


@dataclass(frozen=True, slots=True)
class Claim:
    """A row of the comparison with the paper, or with a goal; ``bound`` is the paper's ratio, or the goal's bound."""

    what: str
    bound: str
    ours: str
    values: str
    word: str
    grade: str


def claim(verdict: Verdict, summary: Summary) -> Claim:
    """Format a sentence of the paper beside ours."""
    word = verdict.word if summary.trusted or verdict.agrees is None else f"{verdict.word} (not trusted)"
    values = ""
    if verdict.values is not None:
        unit = unit_of(summary, verdict.metric)
        values = " to ".join(short(value) for value in verdict.values) + f" {unit}"
    # The paper's own digits are not rounded away.
    bound, ours = max(times(verdict.paper), f"{verdict.paper:.3g}x", key=len), ranged(verdict.ours, multiple, summary)
    return Claim(verdict.what, bound, ours, values.strip(), word, graded(verdict.agrees, summary))


def goal(outcome: Outcome, summary: Summary) -> Claim:
    """Format a goal beside what was found."""
    absolute = percent if metric(outcome.metric).unit == "%" else short
    spell = absolute if outcome.metric in ABSOLUTE else finely
    words = {True: "reached", False: "not reached", None: "not measured"}
    word = words[outcome.reached]
    if outcome.ours is not None:
        if 0 < outcome.often < outcome.of:
            word += f" (in {outcome.often} of {counted(outcome.of, 'repeat')})"
        word += "" if summary.trusted else " (not trusted)"
    bound = f"at least {spell(outcome.least)}" if outcome.least is not None else f"at most {spell(outcome.most or 0)}"
    return Claim(outcome.what, bound, ranged(outcome.ours, spell, summary), "", word, graded(outcome.reached, summary))


def ranged(ours: Spread | None, spell: Callable[[float], str], summary: Summary) -> str:
    """Format a median, with the least and the most."""
    if ours is None:
        return "-"
    several = f" ({spell(ours.low)} .. {spell(ours.high)})" if ours.count > 1 else ""
    return " ".join(filter(None, (spell(ours.median) + several, some_of(ours, summary))))


def percent(value: float) -> str:
    """Format a part that is in % already."""
    return f"{value:.0f} %"


def finely(ratio: float) -> str:
    """Format a ratio that one hundredth decides about."""
    return f"{ratio:.3f}x" if 0.1 <= ratio < 2 else multiple(ratio)


def graded(good: bool | None, summary: Summary) -> str:
    """Colour a sentence, where it may be trusted."""
    return {True: "good", False: "bad", None: ""}[good] if summary.trusted else ""


def tally(found: Sequence[bool | None]) -> str:
    """Count what is so."""
    return f"{sum(one is True for one in found)} of {len(found)}" if found else "-"
