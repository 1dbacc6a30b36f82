"""What neighbours keep whatever the ledger is owed: a part of the CPUs, by their own use.

A ledger whose T is out of reach would be raised for ever. So while neighbours that had more are down to less than their
part of a full host, raised components go back a little in each period; and while they have hardly more than it, nothing
is raised further. What a component has come to then is the most that it may have until they have plenty.

Neighbours that never wanted that much do not count as kept short: the ledger may have what they leave. Those that are
met beside shares that are raised already count as wanting it. Those that take hardly anything, although all is back at
what it was found with, are gone.
"""

from __future__ import annotations

import math

from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.need import FOREIGN, IDLE, weight
from qioi.controller.laws.room import LastingRoom
from qioi.controller.period import Period
from qioi.model import MAX_SHARES, HostLoad

#: Time constant in s of what neighbours use; seconds after which it is forgotten that they have used more.
SMOOTH, FORGET = 3.0, 300.0
#: Up to this many times their part neighbours have hardly more than it; from the second on they have plenty.
HARDLY, PLENTY = 1.5, 3.0
#: Of a large part that would be more than there is: neither is farther than this on the way from it to the whole host.
NEAR, FAR = 0.1, 0.8
#: A raised share goes back, and on again, by these factors in a second.
BACK, ON = 0.93, 1.03
#: A component may have at least this part of its share, also where that does not follow: it drops by no more at once
#: when it does. The kernel's units are coarse: a weight of 2 follows below three quarters only.
LAG = 0.7


class Minimum:
    """``part`` is that of the host's CPUs, 0..1; with 0 neighbours keep what their weight brings them."""

    def __init__(self, part: float) -> None:
        self.part = part
        self._room = LastingRoom()
        self._forget()

    @property
    def _hardly(self) -> float:
        """The part of the CPUs up to which neighbours have hardly more than theirs."""
        return min(HARDLY * self.part, self.part + NEAR * (1 - self.part))

    @property
    def _plenty(self) -> float:
        """The part of the CPUs from which on neighbours have plenty."""
        return min(PLENTY * self.part, self.part + FAR * (1 - self.part))

    def _forget(self) -> None:
        """Forget the neighbours and what components may have beside them."""
        self._used: float | None = None
        self._wanted_at = -math.inf
        #: When a full host was first met beside raised shares.
        self._met_at = -math.inf
        self._most: dict[str, float] = {}

    def step(self, period: Period) -> dict[str, Limit]:
        """Take one period in; give the limits of raised components, by name.

        A moment of room, or one in which the host's load is not known, tells nothing of what neighbours want.
        """
        host = period.host
        if not self.part:
            self._forget()
        elif host is not None:
            room = host.idle >= IDLE
            if self._room.step(period.now, room) or (room and not any(period.raised())):
                self._forget()
            elif not room:
                self._learn(period, host)
        self._most = {name: most for name, most in self._most.items() if name in period.forces}
        text = f"neighbours keep {self.part:.0%} of the CPUs"
        return {name: Limit(Reason.MINIMUM, text, round(most)) for name, most in self._most.items()}

    def _learn(self, period: Period, host: HostLoad) -> None:
        """Learn from a full host."""
        seconds = max((one.interval for one in period.delays.values()), default=0.0)
        if self._used is None:
            # Beside shares that are raised already, as after a restart, nobody sees what neighbours would use. Beside
            # those of pinned components alone it is seen: the other CPUs had room.
            squeezed = any(name not in host.pinned for name, _ in period.raised())
            self._used, self._met_at = host.foreign, period.now if squeezed else -math.inf
        self._used += weight(seconds, SMOOTH) * (host.foreign - self._used)
        # While hardly anything is foreign, the shares are raised against tenants.
        are_met = SMOOTH <= period.now - self._met_at <= FORGET and self._used >= FOREIGN
        if are_met or self._used >= self._hardly:
            self._wanted_at = period.now
        if self._most and max(self._used, host.foreign) < FOREIGN and not any(period.raised()):
            self._forget()  # they do not take what all of it was given back for: they are gone
        elif period.now - self._wanted_at <= FORGET:
            self._move(period, seconds, self._used)

    def _move(self, period: Period, seconds: float, used: float) -> None:
        """Move what components may have, while neighbours use the part ``used``."""
        if used >= self._plenty:
            self._most = {}
        elif used >= self._hardly:
            factor = ON ** min(seconds, FORGET)
            self._most = {name: min(MAX_SHARES, most * factor) for name, most in self._most.items()}
        else:
            factor = BACK**seconds if used < self.part else 1.0
            for name, force in period.raised():
                most = min(force.share, self._most.get(name, force.share)) * factor
                self._most[name] = max(force.original, LAG * force.share, most)
