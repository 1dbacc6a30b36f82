"""What was seen of single containers, and all of it as one value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qioi.discovery.base import Found
from qioi.model import Component


@dataclass(frozen=True, slots=True)
class Sight:
    """One container that is a component, or would be but for a problem; or a neighbour's that is best-effort.

    ``best_effort`` is such a neighbour's group.
    """

    component: Component | None
    threshold: float | None = None
    problems: tuple[str, ...] = ()
    name: str = ""
    best_effort: str | None = None


def gather(sights: Iterable[Sight], about: str, problem: str | None) -> Found:
    """Make one value of it; ``problem`` is what is wrong with who was asked, which is called ``about``."""
    components: list[Component] = []
    best_effort: list[str] = []
    thresholds: dict[str, float] = {}
    problems: dict[str, str] = {}
    for sight in sorted(sights, key=lambda one: one.name):
        if sight.component is not None:
            components.append(sight.component)
            if sight.threshold is not None:
                for channel in sight.component.channels:
                    thresholds[channel] = max(sight.threshold, thresholds.get(channel, 0.0))
        if sight.best_effort is not None:
            best_effort.append(sight.best_effort)
        if sight.problems:
            problems[f"container {sight.name}"] = "; ".join(sight.problems)
    if problem is not None:
        problems[about] = problem
    return Found(tuple(components), thresholds, problems, best_effort=tuple(best_effort))
