"""CPUs that the components' control groups, those above them, and foreign ones beside them used between two looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from qioi.kernel.cpu_accounts import CpuAccounts, UsedSince
from qioi.model import Component, DelayReading, Foreigner
from qioi.model.groups import chain
from qioi.monitor.scheduler.foreign_groups import ForeignGroups


class GroupUsage:
    """Reads the groups' accounts of CPU time, once a period; ``foreign`` are the groups beside components."""

    def __init__(self, accounts: CpuAccounts, foreign: ForeignGroups | None = None) -> None:
        self._accounts = accounts
        self._used = UsedSince(accounts)
        self._foreign = foreign
        self._above: Mapping[str, Set[str]] = {}
        self._idle_used = UsedSince(accounts)
        self._read_at: float | None = None
        self._period = 0.0

    def read(
        self,
        now: float,
        components: Iterable[Component],
        delays: Mapping[str, DelayReading],
        above: Mapping[str, Set[str]],
    ) -> dict[str, float]:
        """Give what the groups ``above`` components, and the components' own, used: in CPUs, since the last look.

        A component's own is taken from its delay reading. What groups at ``cpu.idle`` used is left out.
        A group of which that is not known is missing.
        """
        self._above = above
        self._period, self._read_at = now - (now if self._read_at is None else self._read_at), now
        idle, used = self._idle_above(now), self._used.look(now, above)
        for group in idle.keys() & used.keys():
            used[group] = max(0.0, used[group] - idle[group])
        for one in components:
            delay = delays.get(one.name)
            if delay is not None and delay.interval > 0:
                used[one.cgroup] = delay.cores
            elif self._accounts.seconds(one.cgroup) is None:
                used[one.cgroup] = 0.0  # it is down
        return used

    def _idle_above(self, now: float) -> dict[str, float]:
        """Give the CPUs that idle groups used since the last look, by the groups above them."""
        above: dict[str, float] = {}
        groups = self._foreign.idle_groups() if self._foreign is not None else ()
        for group, cores in self._idle_used.look(now, groups).items():
            for level in (*chain(group)[1:], ""):
                above[level] = above.get(level, 0.0) + cores
        return above

    def foreigners(self, now: float) -> tuple[Foreigner, ...]:
        """Name the foreign groups that use the most CPUs, the most first; to be asked while a component is disturbed.

        The first answer after a pause is empty: it takes two looks to compare, a second or a period apart.
        """
        if self._foreign is None:
            return ()
        self._foreign.look(now, self._above, self._period)
        return self._foreign.most()
