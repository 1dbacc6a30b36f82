"""What every control law sees and says. A law is an immutable value: it does no I/O and has no clock.

``law.step(seen)`` gives the law as it stands after this period together with its verdict, so a
whole run can be replayed, and two laws can look at the same input, without either disturbing it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from qioi.types import MAX_SHARES, MIN_SHARES, DelayReading, Working
from qioi.values import frozen


@dataclass(frozen=True, slots=True)
class Bounds:
    """Shares that a policy may reach, in cgroup v1 units, inside the kernel's own limits."""

    floor: int = MIN_SHARES
    ceiling: int = MAX_SHARES

    def __post_init__(self) -> None:
        if not MIN_SHARES <= self.floor <= self.ceiling <= MAX_SHARES:
            raise ValueError(
                f"floor {self.floor} and ceiling {self.ceiling}: accepted is "
                f"{MIN_SHARES} <= floor <= ceiling <= {MAX_SHARES}"
            )

    def clamp(self, shares: float) -> int:
        """Round to a whole share within the bounds. Infinity is the ceiling; a law never yields NaN."""
        if shares <= self.floor:
            return self.floor
        return self.ceiling if shares >= self.ceiling else round(shares)


#: The kernel's limits alone.
UNBOUNDED = Bounds()


@frozen
class HostLoad:
    """How busy the whole host is, as shares of all its CPUs, 0..1.

    ``idle`` is what nobody used, ``foreign`` what was used by anybody but the ledger's components. ``lasting`` is the
    same over a second at least, where the period was shorter: a moment is too short to say that there is room.
    ``sudden`` says that less than a second ago far more threads than usual were found runnable.
    """

    idle: float
    foreign: float
    lasting: HostLoad | None = None
    sudden: bool = False


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
