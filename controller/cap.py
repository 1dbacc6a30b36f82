"""A host-wide cap on what all boosts together may take, and who goes without first: the lowest priority.

The unit is the part of the host's CPU that the boosted groups hold by weight while everybody who is busy now stays
busy: at each level a group's weight over that of its busy siblings and itself, multiplied from the outermost level in;
0..1, summed over the boosted groups. Where it is above the cap, boosts shrink towards the shares that were found: those
of the lowest priority first, all of one priority by the same part, the next priority only when those are gone. A group
is never taken below what it was found with, so components that hold more than the cap by themselves are left there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from qioi.controller.levels import chain, parent_of

#: Halvings in search of the part of a boost that fits: exact to a thousandth of it.
STEPS = 10


@dataclass(frozen=True, slots=True)
class Boost:
    """One component's boost. Shares in v1 units, ``found`` is where it came from; higher priorities keep longer."""

    component: str
    shares: int
    found: int
    priority: int = 0

    def scaled(self, part: float) -> int:
        """Give the share with only that part of the boost, rounded down."""
        return self.shares if part >= 1 else int(self.found + part * (self.shares - self.found))


def limit(boosts: Iterable[Boost], held: Callable[[Mapping[str, int]], float], cap: float) -> dict[str, int]:
    """Give each component's share under the cap. ``held`` says what part of the host shares by component would hold."""
    boosts = [one for one in boosts if one.shares > one.found]
    shares = {one.component: one.shares for one in boosts}
    for priority in sorted({one.priority for one in boosts}):
        if held(shares) <= cap:
            return shares
        group = [one for one in boosts if one.priority == priority]
        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            fits = held({**shares, **{one.component: one.scaled(middle) for one in group}}) <= cap
            low, high = (middle, high) if fits else (low, middle)
        shares |= {one.component: one.scaled(low) for one in group}
    return shares


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
