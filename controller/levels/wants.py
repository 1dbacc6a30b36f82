"""The share in force of a component and the share wanted for it, at the levels where it is acted on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from qioi.controller.guard.guard import Guard
from qioi.controller.levels.placement import Placement
from qioi.model import MAX_SHARES, Decision


class InForce(Struct, frozen=True):
    """What holds for one component: shares in v1 units at the level that counts, and what is wrong, if anything.

    ``taken`` are the groups it is acted at whose shares somebody else has changed: they are left alone for good.
    """

    share: int
    original: int
    placement: Placement
    problem: str | None = None
    taken: tuple[str, ...] = ()


class Want(Struct, frozen=True):
    """One component's decision, its own group, and where it is acted on.

    ``limits`` are the most, in v1 units, that groups above it may have. One that is ``shown`` is a dry run's: it is
    not carried out.
    """

    decision: Decision
    cgroup: str
    placement: Placement
    limits: Mapping[str, int] = field(default_factory=dict)
    shown: bool = False


def groups_of(guard: Guard, want: Want, shares: int) -> Iterator[tuple[str, int]]:
    """Give the value, in v1 units, that each of a component's groups has when the component has ``shares``.

    A group above it, which others are in too, never has less than it was found with.
    """
    found = guard.found(want.cgroup)
    for group in dict.fromkeys((want.cgroup, *want.placement.groups)):
        if group == want.cgroup:
            yield group, shares if group in want.placement.groups else min(shares, found)
        elif guard.holds(group):
            most = want.limits.get(group, MAX_SHARES)
            least = guard.found(group)
            yield group, max(least, min(MAX_SHARES, most, round(least * shares / found)))
