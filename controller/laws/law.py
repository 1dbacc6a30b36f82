"""What every control law sees and says. A law is an immutable value: it does no I/O and has no clock.

``law.step(seen)`` gives the law as it stands after this period together with its verdict, so a
whole run can be replayed, and two laws can look at the same input, without either disturbing it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol, Self

from msgspec import Struct

from qioi.model import Bounds, DelayReading, HostLoad, Working


class Seen(Struct, frozen=True):
    """One component and one of its channels, as seen in one period.

    ``now`` is a monotonic time in seconds. ``commit_age`` is the seconds since the channel's last
    commit; ``throughput`` and ``threshold`` are in transactions per second. ``None`` means unknown.
    ``presumed``: no commit is seen, but somebody is taken to send.
    ``armed``: what is enough beside the neighbours that are there is known.
    """

    now: float
    throughput: float | None = None
    threshold: float | None = None
    commit_age: float | None = None
    delay: DelayReading | None = None
    host: HostLoad | None = None
    presumed: bool = False
    armed: bool = False


class ChannelSeen(NamedTuple):
    """What of :class:`Seen` is the channel's, whatever the component."""

    throughput: float | None
    threshold: float | None
    commit_age: float | None
    presumed: bool


class Effect(StrEnum):
    """What a law has done to its share, as it is said to people."""

    RAISED = "raised"
    HELD = "share held"
    TAKEN_UP = "raised to the share that is held"  # another one is in force: something was started anew
    PROBED = "a lower share tried"
    LOWERED = "lowered"
    RELEASED = "back towards the default"
    DEFAULT = "default share"


class Verdict(Struct, frozen=True):
    """The shares a law asks for, and why: the ``cause``, what was done about it, and what others have ``added``.

    ``error`` is diff/T where the law computed one, ``working`` how it got there.
    """

    shares: int
    cause: str
    effect: Effect
    error: float | None = None
    working: Working | None = None
    added: str = ""

    @property
    def reason(self) -> str:
        """One clause for people."""
        return f"{self.cause}: {self.effect}{self.added}"


class Law(Protocol):
    """A control law together with all it remembers. Nobody else changes its memory."""

    @property
    def default(self) -> int:
        """S_default, in v1 units."""
        ...

    @property
    def bounds(self) -> Bounds:
        """The least and the largest share that it asks for."""
        ...

    @property
    def share(self) -> float:
        """The share, in v1 units, that it has come to."""
        ...

    def step(self, seen: Seen) -> tuple[Self, Verdict]:
        """Look at one period; return the law as it stands after it, and its verdict."""
        ...

    def at(self, share: float) -> Self:
        """Return it going on from that share, in v1 units, as far as its bounds allow."""
        ...

    def limited(self, share: int, before: int) -> Self:
        """Return it as it stands when no more than ``share`` was given, and ``before`` was in force.

        What is beyond must not wind up.
        """
        ...


def rest_of(law: Law) -> int:
    """Give where a law's share goes when nothing is needed: S_default within the bounds, in v1 units."""
    return law.bounds.clamp(law.default)
