"""Find the level at which each component is acted on, from the CPU time of the groups above it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from qioi.controller.levels.placement import KeptBack, Levels, Placement
from qioi.kernel.cpu_accounts import CpuAccounts
from qioi.model import Component, DelayReading, Foreigner
from qioi.monitor.scheduler.foreign_groups import ForeignGroups
from qioi.monitor.scheduler.group_usage import GroupUsage
from qioi.monitor.scheduler.siblings import Siblings


class LevelWatch:
    """Reads the groups' CPU time, and finds each component's placement from it."""

    def __init__(
        self, accounts: CpuAccounts, foreign: ForeignGroups | None = None, siblings: Siblings | None = None
    ) -> None:
        """Make it; without ``foreign`` it names no foreign groups, without ``siblings`` it weighs none."""
        self._usage = GroupUsage(accounts, foreign)
        self._siblings = siblings
        self._levels = Levels()

    def read(
        self,
        now: float,
        components: Iterable[Component],
        delays: Mapping[str, DelayReading],
        raised: Collection[str],
        kept_back: Mapping[str, KeptBack],
    ) -> dict[str, Placement]:
        """Give every component's placement, by its group; ``raised`` are the raised groups at all levels.

        ``kept_back`` are those of components that others of the ledger keep back.
        """
        components = tuple(components)
        groups = tuple([one.cgroup for one in components])
        used = self._usage.read(now, components, delays, self._levels.branches(groups))
        return self._levels.step(now, groups, used, os.cpu_count() or 1, raised, kept_back)

    def siblings(self) -> Mapping[str, Mapping[str, int]]:
        """Give the weights of the foreign groups beside components that run, by the group above them."""
        return self._siblings.read() if self._siblings is not None else {}

    def foreigners(self, now: float) -> tuple[Foreigner, ...]:
        """Name the foreign groups that use the most CPUs, largest first; call it while a component is disturbed."""
        return self._usage.foreigners(now)
