"""The criteria by which the machine was too noisy for a repeat to count; every page states them.

A noisy repeat is kept and shown, but no median includes it. It is measured again, until there are twice as many repeats
as were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Criterion:
    """A metric of a cell (in %) that must not pass a bound."""

    metric: str
    bound: float
    sentence: str


CRITERIA = (
    Criterion("steal", 3.0, "the hypervisor gave {value:.1f} % of the CPU time to others"),
    Criterion("others", 5.0, "processes outside the lab used {value:.1f} % of the machine"),
    # A switch that was lost joins two slices, or adds a slice to a wait.
    Criterion("perf.lost", 0.1, "perf lost {value:.2g} % of the scheduler's events"),
    Criterion("perf.missed", 5.0, "perf's file was full, and {value:.0f} % of what it was to record are not in it"),
)


def others(busy: float, known: float, cores: int) -> float:
    """Give what processes outside of the lab used, in % of the machine.

    ``busy`` is what all of it used, ``known`` the lab, this process and the kernel itself, both in cores.
    """
    return max(0.0, 100 * (busy - known) / cores)


def complaints(metrics: Mapping[str, float]) -> list[str]:
    """Name what disturbed one cell; empty if it was quiet."""
    return [
        f"{criterion.sentence.format(value=metrics[criterion.metric])} (accepted: {criterion.bound:g} %)"
        for criterion in CRITERIA
        if metrics.get(criterion.metric, 0.0) > criterion.bound
    ]


def stated() -> str:
    """Format the criteria."""
    return "; ".join(f"{criterion.metric} above {criterion.bound:g} % in any cell" for criterion in CRITERIA)
