"""CPUs that the components' control groups, and those above them, used between two looks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from qioi.kernel.accounts import Accounts
from qioi.model import Component, DelayReading


class GroupUsage:
    """Reads the groups' accounts of CPU time, once a period."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._before: dict[str, tuple[float, float]] = {}

    def read(
        self, now: float, components: Iterable[Component], delays: Mapping[str, DelayReading], above: Collection[str]
    ) -> dict[str, float]:
        """Give what the groups ``above`` components, and the components' own, used: in CPUs, since the last look.

        A component's own CPU time is taken from its delay reading. A group that is not accounted for is missing.
        """
        used = {}
        seconds: dict[str, tuple[float, float]] = {}
        for group in above:
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
        return used
