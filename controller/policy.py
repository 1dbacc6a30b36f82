"""What one channel is owed, and by which law, as the configuration says it."""

from __future__ import annotations

from dataclasses import dataclass

from qioi.controller.laws.kinds import KINDS, Kind
from qioi.controller.laws.law import Law
from qioi.model import CEILING, Bounds, Role


@dataclass(frozen=True, slots=True)
class Policy:
    """The throughput that one channel is owed, and the law that pursues it.

    ``default`` is S_default and ``floor`` the smallest share; ``None`` takes the share that the component was found
    with. ``ceiling`` is the largest share; ``None`` takes ``CEILING`` or, under ``adaptive``, what outweighs heavier
    neighbours by as much as that outweighs ordinary ones. ``auto`` says that the threshold is learned.
    Under a cap on all boosts, the channel with the lowest ``priority`` loses its boost first. ``beyond`` says whose the
    CPU is that the channel would take beyond a threshold that is a number: ``neighbours`` or ``ledger``; Algorithm 1
    has no use for it. A ``dry_run`` policy only shows what it would do, and does not affect components that another
    policy acts on.
    """

    channel: str
    law: str
    threshold: float | None = None
    k: float = 4.0
    default: int | None = None
    floor: int | None = None
    ceiling: int | None = None
    auto: bool = False
    priority: int = 0
    beyond: str = "neighbours"
    dry_run: bool = False

    @property
    def kind(self) -> Kind:
        """The kind of its law."""
        return KINDS[self.law]

    @property
    def roles(self) -> frozenset[Role]:
        """Roles that this policy's law may raise."""
        return self.kind.roles

    @property
    def is_bounded(self) -> bool:
        """Whether the channel leaves to the neighbours what is beyond its threshold."""
        return self.kind.takes_limits and self.beyond == "neighbours"

    @property
    def follows(self) -> bool:
        """Whether the ceiling follows the neighbours' weight: nobody has stated one."""
        return self.kind.follows_neighbours and self.ceiling is None

    def start(self, found: int, outweighs: int = 0) -> Law:
        """Make the law for a component; see :meth:`frame`."""
        return self.kind.begin(None, *self.frame(found, outweighs), self.k)

    def resume(self, before: Law | None, found: int, share: float, outweighs: int = 0) -> Law:
        """Make a law that goes on from ``share``, with the memory of the law ``before`` if it is of the same kind."""
        return self.kind.begin(before, *self.frame(found, outweighs), self.k).at(share)

    def rest(self, found: int) -> int:
        """Give the share, in v1 units, of a component without need that was found with the share ``found``."""
        default, bounds = self.frame(found)
        return bounds.clamp(default)

    def frame(self, found: int, outweighs: int = 0) -> tuple[int, Bounds]:
        """Give S_default and the bounds for a component that was found with the share ``found``.

        A ceiling that follows the neighbours' weight is at least the share that ``outweighs`` them.
        """
        default = self.default or found
        floor = self.floor or default
        ceiling = max(CEILING, outweighs if self.follows else 0) if self.ceiling is None else self.ceiling
        return default, Bounds(floor, max(floor, ceiling))
