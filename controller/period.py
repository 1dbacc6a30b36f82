"""One period as it was observed: the one value that findings, laws and levels look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.wants import InForce
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, LeaderChange, Stalls

NOT_LOOKED_AT = Stalls(None)


class Period(Struct, frozen=True):
    """All that was observed of the period that ended at the monotonic time ``now``, in seconds.

    Channels are named as their policies are, components by their names. ``delays`` lacks components that could not be
    read. ``host`` is ``None`` where the clock has not ticked. ``owed`` has every channel that has a policy. ``heard``
    names channels that commits came of lately, those without a policy too. ``elections`` were logged since the period
    before. ``forces`` has the shares in force; a component whose control group can't be read is in ``absent``
    instead, with the reason, and in ``gone`` if that group was removed. ``siblings`` are the foreign groups beside
    components that have run lately, by the group above them, each with its weight in the unit of its file; where
    nothing new is known of them, there are none. ``cpus`` are those that a component may run on, for those components
    that may not run on all.
    """

    now: float
    components: tuple[Component, ...]
    channels: Mapping[str, ChannelReading] = field(default_factory=dict)
    delays: Mapping[str, DelayReading] = field(default_factory=dict)
    host: HostLoad | None = None
    owed: Mapping[str, Threshold] = field(default_factory=dict)
    heard: tuple[str, ...] = ()
    elections: tuple[LeaderChange, ...] = ()
    stalls: Stalls = NOT_LOOKED_AT
    forces: Mapping[str, InForce] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    siblings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cpus: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def raised(self) -> Iterator[tuple[str, InForce]]:
        """Name the components that have more than they were found with, each with what is in force."""
        return ((name, force) for name, force in self.forces.items() if force.share > force.original)
