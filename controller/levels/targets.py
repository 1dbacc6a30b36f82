"""The plan of a period's writes: the value that each group is to have, and which groups have another one now.

Values are in v1 units. The guard is asked for what it holds and saw last, and writes nothing here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from qioi.controller.guard.guard import Guard
from qioi.controller.levels.wants import Top, Want, groups_of
from qioi.kernel.errors import CgroupError


@dataclass(frozen=True, slots=True)
class Plan:
    """The value of every group that an unfulfilled want names.

    ``wants`` are those wants, and the fulfilled ones that name one of their groups. ``behind`` has the wants behind
    each value, the one that asks for most first. ``above`` are the groups at which a component below them is acted at.
    """

    wants: tuple[Want, ...]
    values: Mapping[str, int]
    behind: Mapping[str, list[Want]]
    above: frozenset[str]


def plan(guard: Guard, wants: Collection[Want], raised_above: Collection[str]) -> Plan:
    """Plan for these wants; ``raised_above`` are groups above components that are acted at and not put back yet.

    A group that several components are acted at gets the most that any of them needs.
    """
    wants = unfulfilled(guard, wants, raised_above)
    values: dict[str, int] = {}
    behind: dict[str, list[Want]] = {}
    above = set()
    for want in wants:
        for group, value in groups_of(guard, want, want.decision.shares):
            if group != want.cgroup:
                above.add(group)
            if value > values.get(group, 0):
                values[group] = value
                behind.setdefault(group, []).insert(0, want)
            else:
                behind[group].append(want)
    return Plan(wants, values, behind, frozenset(above))


def unfulfilled(guard: Guard, wants: Collection[Want], raised_above: Collection[str]) -> tuple[Want, ...]:
    """Leave out wants that are fulfilled, except those for a group that other wants name too."""
    standing = [is_fulfilled(guard, want) for want in wants]
    asked = (want.placement.groups for want, stands in zip(wants, standing, strict=True) if not stands)
    shared = set(raised_above).union(*asked)  # one component's own group may be above another one's
    return tuple(want for want, stands in zip(wants, standing, strict=True) if not stands or want.cgroup in shared)


def is_fulfilled(guard: Guard, want: Want) -> bool:
    """Whether a want is fulfilled: its own group, or all groups that it names if it asks for no raise."""
    group, shares = want.cgroup, want.decision.shares
    try:
        if want.placement.groups == (group,):
            return guard.is_same(group, guard.last(group), shares)
        return shares == guard.found(group) == guard.last(group) and all(
            guard.last(one) == guard.found(one) for one in want.placement.groups if guard.holds(one)
        )
    except CgroupError:
        return False  # the guard finds out again, and says it


def changes(guard: Guard, values: Mapping[str, int]) -> dict[str, int]:
    """Leave out values that are in force, and foreign groups."""
    return {
        group: value
        for group, value in values.items()
        if not guard.is_foreign(group) and not is_in_force(guard, group, value)
    }


def is_in_force(guard: Guard, group: str, value: int) -> bool:
    """Whether a group has this value. Where it can't be read, the guard finds out again, and says it."""
    share = share_of(guard, group)
    return share is not None and guard.is_same(group, share, value)


def share_of(guard: Guard, group: str) -> int | None:
    """Give the share that a group has; ``None`` where it can't be read."""
    try:
        return guard.last(group)
    except CgroupError:
        return None


def is_change(guard: Guard, want: Want) -> bool:
    """Whether a decision changes a share, after rounding to the kernel's unit, and is not about a foreign group."""
    group, decision = want.cgroup, want.decision
    return (
        decision.changes
        and not guard.is_same(group, decision.previous, decision.shares)
        and not guard.is_foreign(group)
    )


def is_made(guard: Guard, want: Want, top: Top) -> bool:
    """Whether a share has moved to the one decided on, as near as its group's limits and own unit allow."""
    previous, shares = want.decision.previous, want.decision.shares
    if top.share in (previous, shares):
        return top.share != previous
    value = dict(groups_of(guard, want, shares))[top.group]
    if top.group == want.cgroup and value == dict(groups_of(guard, want, previous))[top.group]:
        return False  # its own group was not to be moved: what has changed the share is a group above
    return guard.is_same(top.group, guard.last(top.group), value)
