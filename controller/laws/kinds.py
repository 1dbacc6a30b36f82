"""The kinds of laws that a policy may name, and what is different with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Law
from qioi.controller.laws.proportional import Proportional
from qioi.model import Bounds, Role

#: The paper raises orderers (with their brokers) and peers alike; chaincode keeps the default. A database's nodes are
#: raised by either law.
PROPORTIONAL_ROLES = frozenset({Role.PEER, Role.ORDERER, Role.BROKER, Role.REPLICA})
#: `adaptive` acts by each component's own need, so it also raises chaincodes and components that peers wait for.
#: A client is never raised.
ADAPTIVE_ROLES = PROPORTIONAL_ROLES | {Role.CHAINCODE, Role.SUPPORT}


@dataclass(frozen=True, slots=True)
class Kind:
    """One of them, by its name in a configuration.

    ``roles`` are those of components that it may raise. ``begin`` makes the law for a component, of the law that was
    there before, S_default, the bounds and k; a law before it of the same kind leaves it its memory.
    ``is_literal``: it is followed to the letter. Throughput alone moves it, so it needs a threshold and reacts to no
    onset. Nothing that is found keeps what it asks for within limits, its ceiling does not follow the neighbours'
    weight, and what is beyond T is not left to them.
    """

    name: str
    roles: frozenset[Role]
    is_literal: bool
    begin: Callable[[Law | None, int, Bounds, float], Law]

    @property
    def needs_threshold(self) -> bool:
        """Whether it does nothing without a threshold."""
        return self.is_literal

    @property
    def takes_k(self) -> bool:
        """Whether k, a policy's gain, is its gain; otherwise it takes its gain from what it sees."""
        return self.is_literal

    @property
    def is_prompt(self) -> bool:
        """Whether it reacts to an onset of interference before its period is over."""
        return not self.is_literal

    @property
    def takes_limits(self) -> bool:
        """Whether findings, and what is beyond T, limit what it asks for."""
        return not self.is_literal

    @property
    def follows_neighbours(self) -> bool:
        """Whether a ceiling that nobody has stated follows the neighbours' weight."""
        return not self.is_literal


def begin_proportional(before: Law | None, default: int, bounds: Bounds, k: float) -> Law:
    """Make Algorithm 1, which has no memory but its share."""
    del before
    return Proportional(bounds.clamp(default), k, default, bounds)


def begin_adaptive(before: Law | None, default: int, bounds: Bounds, k: float) -> Law:
    """Make `adaptive`, which takes its gain from what it sees."""
    del k
    return before.framed(default, bounds) if isinstance(before, Adaptive) else Adaptive.start(default, bounds)


KINDS: Mapping[str, Kind] = {
    one.name: one
    for one in (
        Kind("proportional", PROPORTIONAL_ROLES, True, begin_proportional),
        Kind("adaptive", ADAPTIVE_ROLES, False, begin_adaptive),
    )
}
