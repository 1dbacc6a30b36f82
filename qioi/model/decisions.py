"""What a control law wants for a component, and how it came to that."""

from __future__ import annotations

from msgspec import Struct


class Working(Struct, frozen=True):
    """How a law came to its shares: the rule it applied, what that asked for, and the bounds put on it.

    ``wanted`` is in cgroup v1 units, before rounding and before ``floor`` and ``ceiling``.
    """

    rule: str
    wanted: float
    floor: int
    ceiling: int


class Decision(Struct, frozen=True):
    """What a control law wants for one component, and why.

    ``shares`` and ``previous`` are in cgroup v1 units. ``reason`` is one clause for people;
    ``error`` is diff/T where the law computed one. ``asks`` are, of all channels that the component
    serves, the priority and the shares that its law asked for: the most is ``shares``.
    """

    component: str
    previous: int
    shares: int
    reason: str
    error: float | None = None
    channel: str | None = None
    working: Working | None = None
    asks: tuple[tuple[int, int], ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the decision asks for another value than before."""
        return self.shares != self.previous
