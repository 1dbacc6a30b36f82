"""The share in force of a component and the share wanted for it, at the levels where it is acted on.

A component's share stands to the one it was found with as the value of each group that it is acted at stands to that
group's original.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct, field

from qioi.controller.guard.guard import Guard
from qioi.controller.levels.placement import Placement
from qioi.kernel.errors import CgroupError
from qioi.model import MAX_SHARES, Decision


class InForce(Struct, frozen=True):
    """What holds for one component: shares in v1 units at the level that counts, and what is wrong, if anything.

    ``taken`` are the groups it is acted at whose shares somebody else has changed: they are left alone for good.
    ``by_request``: a pod's request is moved, and shares are what the kubelet makes of it, on cgroup v2 too.
    ``foreign``: one of these groups has a share that somebody else has set, whether a write has met it yet or not.
    ``taken_up``: such a share was made the original in this period.
    """

    share: int
    original: int
    placement: Placement
    problem: str | None = None
    taken: tuple[str, ...] = ()
    by_request: bool = False
    foreign: bool = False
    taken_up: bool = False


class Want(Struct, frozen=True):
    """One component's decision, its own group, and where it is acted on.

    ``limits`` are the most, in v1 units, that groups above it may have. One that is ``shown`` is a dry run's: it is
    not carried out. ``request`` is the share that a pod was found with whose request is moved instead of its groups'
    files: its shares are in another unit than the guard's.
    """

    decision: Decision
    cgroup: str
    placement: Placement
    limits: Mapping[str, int] = field(default_factory=dict)
    shown: bool = False
    request: int | None = None


class Top(NamedTuple):
    """The group at which a component's share is highest, and that share in v1 units of the component."""

    group: str
    share: int


def found_of(guard: Guard, want: Want) -> int:
    """Give the share that a component was found with, in the unit of its decision."""
    return guard.found(want.cgroup) if want.request is None else want.request


def groups_of(guard: Guard, want: Want, shares: int) -> Iterator[tuple[str, int]]:
    """Give the value, in v1 units, that each of a component's groups has when the component has ``shares``.

    A group above it, which others are in too, never has less than it was found with. What the kubelet has written for a
    pod's present request is found, too.
    """
    own = guard.found(want.cgroup)
    found = own if want.request is None else want.decision.previous
    for group in dict.fromkeys((want.cgroup, *want.placement.groups)):
        if group == want.cgroup:
            value = round(own * shares / found)
            yield group, value if group in want.placement.groups else min(value, own)
        elif guard.holds(group):
            most = want.limits.get(group, MAX_SHARES)
            its = guard.found(group)
            least = round(its * found_of(guard, want) / found)
            yield group, max(least, min(MAX_SHARES, most, round(its * shares / found)))


def top_of(guard: Guard, cgroup: str, placement: Placement) -> Top:
    """Give the level where a component's share is highest, among those acted at and not foreign.

    A group above it that can't be read is left out. CgroupError: its own can't.
    """
    found, own = guard.found(cgroup), Top(cgroup, guard.last(cgroup))
    if placement.groups == (cgroup,) or (own.share < found and not guard.is_foreign(cgroup)):
        return own
    tops = []
    for group in placement.groups:
        if guard.holds(group) and not guard.is_foreign(group):
            with suppress(CgroupError):
                tops.append(Top(group, round(guard.last(group) * found / guard.found(group))))
    return max(tops, key=lambda top: top.share, default=own)
