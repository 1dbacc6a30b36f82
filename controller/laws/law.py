"""What every control law sees and says. A law is an immutable value: it does no I/O and has no clock.

``law.step(seen)`` gives the law as it stands after this period together with its verdict, so a
whole run can be replayed, and two laws can look at the same input, without either disturbing it.
"""

from __future__ import annotations

from typing import Protocol

from qioi.model import DelayReading, HostLoad, Working
from qioi.model.frozen import frozen


@frozen
class Seen:
    """One component and one of its channels, as seen in one period.

    ``now`` is a monotonic time in seconds. ``commit_age`` is the seconds since the channel's last
    commit; ``throughput`` and ``threshold`` are in transactions per second. ``None`` means unknown.
    ``presumed``: no commit was seen yet, but somebody is taken to send.
    """

    now: float
    throughput: float | None = None
    threshold: float | None = None
    commit_age: float | None = None
    delay: DelayReading | None = None
    host: HostLoad | None = None
    presumed: bool = False


@frozen
class Verdict:
    """The shares a law asks for, one clause for people, diff/T where the law computed one, and how it got there."""

    shares: int
    reason: str
    error: float | None = None
    working: Working | None = None


class Law(Protocol):
    """A control law together with all it remembers."""

    @property
    def share(self) -> float:
        """The share, in v1 units, that it has come to."""
        ...

    def step(self, seen: Seen) -> tuple[Law, Verdict]:
        """Look at one period; return the law as it stands after it, and its verdict."""
        ...
