"""A host-wide cap on what all boosts together may take; the lowest priority gives way first.

The unit is the part of the host's CPU that the boosted groups hold by weight while everybody who is busy now stays
busy: at each level a group's weight over that of its busy siblings and itself, multiplied from the outermost level in;
0..1, summed over the boosted groups. Where it is above the cap, boosts shrink towards the shares that were found: those
of the lowest priority first, all of one priority by the same part, the next priority only when those are gone. What a
more important channel asks for of a component that it shares goes with that one. A group is never taken below what it
was found with, so components that hold more than the cap by themselves are left there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from qioi.controller.guard.guard import Guard
from qioi.controller.levels.wants import Want, found_of, groups_of
from qioi.controller.levers.idle import DEFAULT_WEIGHT
from qioi.kernel.cpu_accounts import CpuAccounts, UsedSince
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Decision
from qioi.model.groups import branches, chain, parent_of

#: Halvings in search of the part of a boost that fits: exact to a thousandth of it.
STEPS = 10
#: CPUs that a group must have used since the last look to count as busy.
BUSY = 0.01
#: The same of the processes of a group that has groups below it: they have no account of their own, and the accounts
#: that they are reckoned from are read one after the other.
BUSY_OWN = 0.1
#: What stands for these processes among the groups that they compete with.
OWN = "its own processes"


@dataclass(frozen=True, slots=True)
class Boost:
    """One component's boost. Shares in v1 units, ``found`` is where it came from.

    ``asks`` are pairs of a channel's priority and the shares that it asks for: higher priorities keep longer.
    """

    component: str
    found: int
    asks: tuple[tuple[int, int], ...]

    def above(self, priority: float) -> int:
        """Give the share that remains if channels up to a priority get no boost."""
        return max((shares for one, shares in self.asks if one > priority and shares > self.found), default=self.found)


def limit(boosts: Iterable[Boost], held: Callable[[Mapping[str, int]], float], cap: float) -> dict[str, int]:
    """Give the raised components' shares under the cap. ``held`` says what part of the host shares would hold."""
    boosts = [one for one in boosts if one.above(-math.inf) > one.found]
    shares = {one.component: one.above(-math.inf) for one in boosts}
    for priority in sorted({priority for one in boosts for priority, _ in one.asks}):
        if held(shares) <= cap:
            return shares
        least = {one.component: one.above(priority) for one in boosts}
        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if held(between(least, shares, middle)) <= cap else (low, middle)
        shares = between(least, shares, low)
    return shares


def between(least: Mapping[str, int], most: Mapping[str, int], part: float) -> dict[str, int]:
    """Give shares that are that part of the way from the least to the most, rounded down."""
    return {name: int(low + part * (most[name] - low)) for name, low in least.items()}


def part_held(raised: Mapping[str, int], busy: Mapping[str, Mapping[str, int]]) -> float:
    """Give the part of the host that groups hold. Weights in the file's unit; ``busy`` are children by their parent.

    A raised group below another raised one is in that one's part already.
    """
    total = 0.0
    for group in raised:
        if any(level in raised for level in chain(group)[1:]):
            continue
        part = 1.0
        for level in chain(group):
            children = busy.get(parent_of(level), {})
            own = raised.get(level, children.get(level, 0))
            rest = sum(raised.get(child, weight) for child, weight in children.items() if child != level)
            part *= own / (own + rest) if own + rest > 0 else 1.0
        total += part
    return total


@dataclass(frozen=True, slots=True)
class Held:
    """What part of the host boosted groups hold, 0..1, and the cap on it."""

    part: float
    cap: float


class Capper:
    """Shrinks wants until they fit. Reads the host only while something is raised."""

    def __init__(self, guard: Guard, hierarchy: Hierarchy, accounts: CpuAccounts) -> None:
        self._guard = guard
        self._hierarchy = hierarchy
        self._used = UsedSince(accounts)

    def apply(self, now: float, wants: tuple[Want, ...], cap: float) -> tuple[tuple[Want, ...], Held]:
        """Give the wants under the cap, and what they hold."""
        guard = self._guard
        raised = [one for one in wants if not one.shown and one.decision.shares > found_of(guard, one)]
        if not raised:
            self._used.forget()  # a neighbour of now would vanish in the mean over the quiet time
            return wants, Held(0.0, cap)
        busy = self._busy(now, raised)

        def held(shares: Mapping[str, int]) -> float:
            weights: dict[str, int] = {}
            for want in raised:
                its = shares[want.decision.component]
                for group, value in groups_of(guard, want, its):
                    if is_boosted(guard, want, its, group, value) and not guard.is_foreign(group):
                        weights[group] = max(guard.raw(group, value), weights.get(group, 0))
            return part_held(weights, busy)

        boosts = [Boost(one.decision.component, found_of(guard, one), asks(one.decision)) for one in raised]
        shares = limit(boosts, held, cap)
        return tuple(under(one, shares.get(one.decision.component), cap) for one in wants), Held(held(shares), cap)

    def _busy(self, now: float, raised: Iterable[Want]) -> dict[str, dict[str, int]]:
        """Give the weights of groups at each level that used CPU lately; unknown use counts as busy.

        A group's own processes compete with the groups below it, each with the default weight. They are at least as
        many as the CPUs that they used.
        """
        parents = branches(want.cgroup for want in raised)
        weights = {parent: dict(weights_below(self._hierarchy, parent)) for parent in parents}
        groups = {*weights, *(child for children in weights.values() for child in children)}
        # Outer ones first: what is used meanwhile seems to be the groups', and nobody's beside them.
        used = self._used.look(now, sorted(groups, key=len))
        busy: dict[str, dict[str, int]] = {}
        for parent, children in weights.items():
            busy[parent] = {child: weight for child, weight in children.items() if used.get(child, BUSY) >= BUSY}
            if parent in used and used.keys() >= children.keys():
                own = used[parent] - sum(used[child] for child in children)
                if own >= BUSY_OWN:
                    busy[parent][OWN] = math.ceil(own) * DEFAULT_WEIGHT[self._hierarchy.version]
        return busy


def is_boosted(guard: Guard, want: Want, shares: int, group: str, value: int) -> bool:
    """Whether a group has more than it was found with when its component has ``shares``, and it ``value``.

    Where the kubelet has written a pod's groups, the pod's share tells, and not what the guard has found there since.
    """
    if want.request is None:
        return value > guard.found(group)
    return shares > want.request and group in want.placement.groups


def asks(decision: Decision) -> tuple[tuple[int, int], ...]:
    """Give what channels of each priority ask for, within the decision's share."""
    return tuple((priority, min(shares, decision.shares)) for priority, shares in decision.asks)


def weights_below(hierarchy: Hierarchy, parent: str) -> Iterable[tuple[str, int]]:
    """Read the weight of every group directly below one, in the file's own unit; one that vanishes is left out."""
    folder = hierarchy.folder(parent)
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return
    for name in names:
        try:
            yield (
                f"{parent}/{name}" if parent else name,
                int((folder / name / hierarchy.file).read_text(encoding="utf-8")),
            )
        except (OSError, ValueError):
            continue


def under(want: Want, shares: int | None, cap: float) -> Want:
    """Give a want with what the cap leaves of it."""
    if shares is None or shares >= want.decision.shares:
        return want
    reason = f"{want.decision.reason}; boost_cap {cap:g} leaves {shares} of {want.decision.shares}"
    return replace(want, decision=replace(want.decision, shares=shares, reason=reason))


def held_down(before: Iterable[Want], after: Iterable[Want]) -> frozenset[str]:
    """Name the components that the cap leaves less than they want."""
    return frozenset(
        one.decision.component
        for one, left in zip(before, after, strict=True)
        if left.decision.shares < one.decision.shares
    )
