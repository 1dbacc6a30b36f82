"""What the groups above components used, and the levels that follow from it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from qioi.accounts import Accounts
from qioi.controller.levels import Levels, Placement
from qioi.types import Component, DelayReading


class LevelWatch:
    """Reads what the groups above the components used, and has their levels found."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._levels = Levels()
        self._before: dict[str, tuple[float, float]] = {}

    def read(
        self, now: float, components: Iterable[Component], delays: Mapping[str, DelayReading], raised: Collection[str]
    ) -> dict[str, Placement]:
        """Give every component's placement, by its group; ``raised`` are groups at whatever level."""
        components = tuple(components)
        groups = tuple([one.cgroup for one in components])
        used = {}
        seconds: dict[str, tuple[float, float]] = {}
        for group in self._levels.branches(groups):
            total = self._accounts.seconds(group)
            if total is None:
                continue
            at, before = self._before.get(group, (now, total))
            seconds[group] = now, total
            if now > at:
                used[group] = (total - before) / (now - at)
        self._before = seconds
        for one in components:
            delay = delays.get(one.name)
            if delay is not None and delay.interval > 0:
                used[one.cgroup] = delay.run / delay.interval
            elif self._accounts.seconds(one.cgroup) is None:
                used[one.cgroup] = 0.0  # it is down
        return self._levels.step(now, groups, used, os.cpu_count() or 1, raised)
