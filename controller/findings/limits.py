"""What a finding allows a component beside its law: no more than it has, or no more than a number of shares.

A limit never lowers a share only because a component waits for something else than the CPU. A share takes effect only
while its group is runnable, so that one in force costs nobody anything then; and what is let go of because of a finding
that the share itself has brought about, is raised again soon, and so on for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.levels.wants import InForce


class Reason(StrEnum):
    """Why a share is limited."""

    DISK = "disk"  # it waits for its disk
    QUOTA = "quota"  # its CPU quota stops it, or one above it
    BURNS = "burns"  # it takes CPU time without committing
    OUTSIDE = "outside"  # the neighbour is met at a group that the kubelet rewrites
    MINIMUM = "minimum"  # neighbours have hardly more than what they keep
    ENOUGH = "enough"  # it outweighs its neighbours by far
    TRIED = "tried"  # whether its share has any effect is tried
    NO_EFFECT = "no-effect"  # its share has no effect on what it waits for
    TENANT = "tenant"  # it is raised against another channel, or goes back for one, step by step


class Limit(Struct, frozen=True):
    """One component's. ``most`` is in v1 units; ``None``: what is in force. ``text`` is one clause for people."""

    reason: Reason
    text: str
    most: int | None = None

    def allows(self, force: int, rest: int) -> int:
        """Give the most that a component may have with the share ``force`` in force, which rests at ``rest``."""
        return max(rest, force if self.most is None else self.most)

    def within(self, other: Limit, force: int) -> Limit:
        """Give this limit, with the other's bound where that is stricter; ``force`` is in force."""
        most = other.allows(force, 0)
        if self.allows(force, 0) <= most:
            return self
        return replace(self, text=f"{self.text}; {other.text}", most=most)


def strictest(forces: Mapping[str, InForce], *findings: Mapping[str, Limit]) -> dict[str, Limit]:
    """Give the strictest limit of each component. Its reason is that of the last finding which limits the component."""
    limits: dict[str, Limit] = {}
    for finding in findings:
        for name, limit in finding.items():
            before, force = limits.get(name), forces.get(name)
            limits[name] = limit if before is None or force is None else limit.within(before, force.share)
    return limits
