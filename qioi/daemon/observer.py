"""Observe: read, in a fixed order, everything that one period's decisions depend on."""

from __future__ import annotations

from collections.abc import Mapping

from qioi.controller.acting import Actor
from qioi.controller.findings.channels import anybody_suffers
from qioi.controller.findings.contention import outer_ones
from qioi.controller.laws.thresholds import Thresholds
from qioi.controller.levels.placement import KeptBack
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.daemon.instruments import Instruments
from qioi.model import Component, Foreigner
from qioi.monitor.commits.sources import SourceState

#: Seconds after a commit of a channel without a policy for which its components' work may be for it.
ELSEWHERE = 60.0


class Observer:
    """Reads all instruments once a period."""

    def __init__(self, instruments: Instruments, actor: Actor, thresholds: Thresholds) -> None:
        self._instruments = instruments
        self._actor = actor
        self._thresholds = thresholds
        self._outer: dict[str, str] = {}

    def watch(self, components: tuple[Component, ...], policies: Mapping[str, Policy]) -> None:
        """Observe these components and channels; those that stay keep their readings."""
        self._outer = outer_ones(components)
        self._thresholds.adopt(policies)
        self._instruments.channels.watch(components, policies)
        self._instruments.delays.watch(components)
        self._instruments.host.watch(components)

    def observe(self, now: float, components: tuple[Component, ...], kept_back: Mapping[str, KeptBack]) -> Period:
        """Read every instrument, at the monotonic time ``now``.

        ``kept_back`` are the groups of components that others of the ledger kept back in the period before.
        """
        to_read = self._instruments
        channels = to_read.channels.read(now)
        delays = to_read.delays.read(now)
        # The CPU time of a component whose group lies in another's is in the other's.
        outer = [one for name, one in delays.items() if name not in self._outer]
        met = any(name not in self._outer for name in to_read.delays.met)
        host = to_read.host.read(outer, met=met)
        if components and not delays:  # as in the first period: what of the load is foreign is not known
            host = None
        owed = self._thresholds.step(now, components, channels, delays, host)
        stalls = to_read.stalls.read(now, components, delays, anybody_suffers(now, channels, owed))
        placements = to_read.levels.read(now, components, delays, self._actor.raised(), kept_back)
        forces, absent, gone = self._actor.look_at(components, placements)
        return Period(
            now,
            components,
            channels,
            delays,
            host,
            owed,
            to_read.channels.heard(now - ELSEWHERE),
            tuple(to_read.channels.elections()),
            stalls,
            forces,
            absent,
            gone,
            to_read.levels.siblings(),
            to_read.host.cpus,
        )

    def seen(self) -> tuple[str, ...]:
        """Name the channels whose commits were seen."""
        return self._instruments.channels.seen()

    def foreigners(self, now: float) -> tuple[Foreigner, ...]:
        """Name the foreign groups that use the most CPUs, largest first; call it while a component is disturbed."""
        return self._instruments.levels.foreigners(now)

    def sources(self) -> tuple[SourceState, ...]:
        """Give the state of each log and endpoint."""
        return tuple(self._instruments.channels.states())

    def end(self) -> None:
        """End a period: close files that were not read for a long time."""
        self._instruments.files.sweep()
