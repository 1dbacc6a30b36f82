"""Foreign work out of reach: a pod's share takes nothing from what runs outside of the kubelet's groups.

A pod's weight counts among pods of its class. Beside a neighbour outside of the pods' tree, or of another class, it
takes nothing from that neighbour, and sixteen times its share from pods that have disturbed nobody. So nothing is
raised against such a neighbour, and that is said.
"""

from __future__ import annotations

import os

from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.need import QUIET
from qioi.controller.levels.placement import Level, allowed, busy_ones
from qioi.controller.period import Period

#: What paths have that the kubelet manages; a quick look spares a close one of all others.
PODS = "kubepods"


def out_of_reach(period: Period, cpus: int | None = None) -> dict[str, Limit]:
    """Give the limits of components that meet foreign work at such groups alone; what is in force stays."""
    cpus = cpus or os.cpu_count() or 1
    limits = {}
    for name, force in period.forces.items():
        levels = force.placement.levels
        if not levels or PODS not in levels[0].group:
            continue
        away = [level for level in busy_ones(levels, cpus) if (level.foreign or 0.0) >= QUIET]
        if away and not any(is_reached(level, levels[0].group) for level in away):
            where = " and ".join(level.group for level in away)
            limits[name] = Limit(Reason.OUTSIDE, f"the neighbour is beside {where}, which the kubelet rewrites")
    return limits


def is_reached(level: Level, group: str) -> bool:
    """Whether a component's share, or one above it, counts at a level."""
    return allowed(level.group, group) == level.group
