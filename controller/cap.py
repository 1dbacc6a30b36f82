"""A host-wide cap on what all boosts together may take, and who goes without first: the lowest priority.

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

from qioi.controller.levels import chain, parent_of

#: Halvings in search of the part of a boost that fits: exact to a thousandth of it.
STEPS = 10


@dataclass(frozen=True, slots=True)
class Boost:
    """One component's boost. Shares in v1 units, ``found`` is where it came from.

    ``asks`` are pairs of a channel's priority and the shares that it asks for: higher priorities keep longer.
    """

    component: str
    found: int
    asks: tuple[tuple[int, int], ...]

    def above(self, priority: float) -> int:
        """Give the share that it has where everybody up to a priority goes without."""
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
