"""What neighbours keep whatever the ledger is owed: a part of the CPUs, by their own use.

A ledger whose T is out of reach would be raised for ever. So while neighbours that had more are down to less than their
part of a full host, raised components go back a little in each period; and while they have hardly more than it, nothing
is raised further. What a component has come to then is the most that it may have until they have plenty.

Neighbours that never wanted that much do not count as kept short: the ledger may have what they leave.
"""

from __future__ import annotations

from collections.abc import Iterable

from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.need import IDLE, weight
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period

#: Time constants in s: of what neighbours use, and of forgetting that they have used more.
SMOOTH, FORGET = 3.0, 300.0
#: Up to this many times their part neighbours have hardly more than it; from the second on they have plenty.
HARDLY, PLENTY = 1.5, 3.0
#: A raised share goes back, and on again, by these factors in a second.
BACK, ON = 0.93, 1.03


class Minimum:
    """``part`` is that of the host's CPUs, 0..1; with 0 neighbours keep what their weight brings them."""

    def __init__(self, part: float) -> None:
        self.part = part
        self._used: float | None = None
        self._wanted = 0.0
        self._most: dict[str, float] = {}

    def step(self, period: Period) -> dict[str, Limit]:
        """Take one period in; give the limits of raised components, by name."""
        if period.host is None or period.host.idle >= IDLE or not self.part:
            self._used, self._wanted, self._most = None, 0.0, {}
            return {}
        seconds = max((one.interval for one in period.delays.values()), default=0.0)
        foreign, before = period.host.foreign, self._used
        self._used = foreign if before is None else before + weight(seconds, SMOOTH) * (foreign - before)
        self._wanted = max(self._used, self._wanted * (1 - weight(seconds, FORGET)))
        if self._wanted >= HARDLY * self.part:
            self._move(period, seconds)
        self._most = {name: most for name, most in self._most.items() if name in period.forces}
        text = f"neighbours keep {self.part:.0%} of the CPUs"
        return {name: Limit(Reason.MINIMUM, text, round(most)) for name, most in self._most.items()}

    def _move(self, period: Period, seconds: float) -> None:
        """Move what components may have; ``_used`` is known."""
        used = self._used or 0.0
        if used >= PLENTY * self.part:
            self._most = {}
        elif used >= HARDLY * self.part:
            self._most = {name: most * ON**seconds for name, most in self._most.items()}
        else:
            factor = BACK**seconds if used < self.part else 1.0
            for name, force in raised(period):
                most = min(force.share, self._most.get(name, force.share)) * factor
                self._most[name] = max(force.original, most)  # a share that does not follow must not wind it down


def raised(period: Period) -> Iterable[tuple[str, InForce]]:
    """Name the components that have more than they were found with, each with what is in force."""
    return ((name, force) for name, force in period.forces.items() if force.share > force.original)
