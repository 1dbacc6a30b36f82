"""What the neighbours beside components weigh together: the most that they did at once, lately.

Jobs that come one after the other, each in a group of its own, are not added up; neighbours that pause count meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

#: Seconds for which a look counts.
KEPT = 60.0

#: The weight of all neighbours and that of the heaviest one, by the group above them, in the unit of the groups' files.
Beside = dict[str, tuple[int, int]]


class Most:
    """The largest of the numbers of the last :data:`KEPT` seconds."""

    def __init__(self) -> None:
        self._numbers: deque[tuple[float, int]] = deque()  # each is larger than those that came after it

    def add(self, now: float, number: int) -> None:
        """Take one in."""
        while self._numbers and self._numbers[-1][1] <= number:
            self._numbers.pop()
        self._numbers.append((now, number))

    def at(self, now: float) -> int:
        """Give it; 0 where none is left."""
        while self._numbers and now - self._numbers[0][0] > KEPT:
            self._numbers.popleft()
        return self._numbers[0][1] if self._numbers else 0


class Neighbours:
    """Those that were seen to run."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Most, Most]] = {}

    def look(self, now: float, siblings: Mapping[str, Mapping[str, int]]) -> Beside:
        """Take in the weights of those that run, by the group above them, and give the most of the last looks.

        None were looked for where there are no weights.
        """
        for parent, weights in siblings.items():
            if weights:
                total, heaviest = self._known.setdefault(parent, (Most(), Most()))
                total.add(now, sum(weights.values()))
                heaviest.add(now, max(weights.values()))
        beside = {parent: (total.at(now), heaviest.at(now)) for parent, (total, heaviest) in self._known.items()}
        self._known = {parent: known for parent, known in self._known.items() if beside[parent][0]}
        return {parent: one for parent, one in beside.items() if one[0]}

    def forget(self) -> None:
        """Begin anew."""
        self._known = {}
