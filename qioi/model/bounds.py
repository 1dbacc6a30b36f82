"""Bounds of CPU shares: the kernel's, and a policy's inside them."""

from __future__ import annotations

from dataclasses import dataclass

#: The default weight of a CPU control group in cgroup v1 units
#: (kernel: Documentation/scheduler/sched-design-CFS.rst, "cpu.shares").
DEFAULT_SHARES = 1024
#: The kernel's own bounds on ``cpu.shares`` (kernel/sched/sched.h, MIN_SHARES and MAX_SHARES).
MIN_SHARES = 2
MAX_SHARES = 262_144
#: The most shares of a component where nobody has stated a ceiling: twice what eight ordinary neighbours a CPU weigh.
CEILING = 16_384


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
