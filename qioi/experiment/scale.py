"""The rule that scales the papers' sizes to this host.

The QiOi paper's host has 24 cores. The number of neighbours per core disturbs the ledger, so a count n of neighbours
becomes ``ceil(n * cores / 24)``: the paper's pressure, and at least one where the paper has any. Rates scale by
themselves, since they are parts of what the ledger commits at most here. With ``--paper-size`` counts stay.
"""

from __future__ import annotations

import math

from qioi.experiment.spec import NEIGHBOUR_KINDS, ArmSpec, ExperimentSpec, NeighbourSpec

PAPER_CORES = 24
RULE = f"neighbours: ceil(the paper's number x cores / {PAPER_CORES})"


def scaled(count: int, cores: int) -> int:
    """Scale one count to a host of ``cores``; a host of the paper's size or larger keeps or raises it."""
    return math.ceil(count * cores / PAPER_CORES)


def scale_neighbours(neighbours: NeighbourSpec, cores: int) -> NeighbourSpec:
    """Scale one arm's neighbours to this host; those of one CPU stay as many."""
    if neighbours.beside is not None:
        return neighbours
    counts = {kind: scaled(getattr(neighbours, kind), cores) for kind in NEIGHBOUR_KINDS}
    return neighbours.model_copy(update=counts)


def with_count(title: str, count: int) -> str:
    """Put a count into a title; ``{s}`` makes the plural."""
    return title.replace("{n}", str(count)).replace("{s}", "" if count == 1 else "s")


def scale_arms(spec: ExperimentSpec, cores: int) -> tuple[list[ArmSpec], dict[str, str]]:
    """Scale all arms. Those that become the same as one before them are left out: left out -> stands for it.

    ``{n}`` in a title becomes the number of neighbours, which is also the arm's ``axis`` if it names none, and ``{s}``
    their plural's s.
    """
    kept: list[ArmSpec] = []
    same: dict[str, str] = {}
    for arm in spec.arms:
        neighbours = scale_neighbours(arm.neighbours, cores)
        ours = arm.model_copy(
            update={
                "neighbours": neighbours,
                "against": same.get(arm.against, arm.against) if arm.against is not None else None,
                "title": with_count(arm.title, neighbours.count),
                "axis": arm.axis if arm.axis is not None else float(neighbours.count),
            }
        )
        for other in kept:
            if (other.neighbours, other.protection, other.against) == (ours.neighbours, ours.protection, ours.against):
                same[arm.name] = other.name
                break
        else:
            kept.append(ours)
    return kept, same
