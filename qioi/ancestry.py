"""What groups above components are asked for, and what they get: the wishes, held down to the odds at each level."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from qioi.acting import Want
from qioi.controller.ancestors import Ancestors, Ask, together
from qioi.controller.errors import CgroupError
from qioi.controller.guard import Guard
from qioi.controller.law import HostLoad
from qioi.controller.levels import allowed
from qioi.types import MAX_SHARES, DelayReading


class Ancestry:
    """Holds wishes about groups above components down. Algorithm 1 is left to the letter."""

    def __init__(self, guard: Guard, literal: Callable[[str | None], bool]) -> None:
        """Begin; ``literal`` says of a channel whether its law is to be followed to the letter."""
        self._guard = guard
        self._literal = literal
        self._laws = Ancestors()

    def apply(
        self, now: float, wants: tuple[Want, ...], delays: Mapping[str, DelayReading], host: HostLoad | None
    ) -> tuple[Want, ...]:
        """Give the wishes with what each group above components may have at most."""
        behind: dict[str, list[Want]] = {}
        for want in wants:
            for group in want.placement.groups:
                if group != want.cgroup and self._guard.holds(group):
                    behind.setdefault(group, []).append(want)
        limits = self._laws.step(now, self._asks(behind, delays), host, os.cpu_count() or 1) if behind else {}
        if not limits or all(want.decision.shares <= self._guard.found(want.cgroup) for want in wants):
            return wants  # a limit is never below what the group was found with
        places = {want.placement.groups for want in wants}  # few: most components have theirs in common
        at = {groups: {group: limits[group] for group in groups if group in limits} for groups in places}
        return tuple(self._under(want, at[want.placement.groups]) for want in wants)

    def _asks(self, behind: Mapping[str, list[Want]], delays: Mapping[str, DelayReading]) -> dict[str, Ask]:
        asks = {}
        for group, wants in behind.items():
            if any(map(self._literal, {want.decision.channel for want in wants})):
                continue
            found = self._guard.found(group)
            try:
                share = self._guard.last(group)
            except CgroupError:
                continue
            names = [want.decision.component for want in wants]
            factor = max(want.decision.shares / self._guard.found(want.cgroup) for want in wants)
            asks[group] = Ask(
                found,
                share,
                min(MAX_SHARES, round(found * factor)),
                foreign_beside(group, wants[0]),
                together(delays[name] for name in names if name in delays),
            )
        return asks

    def _under(self, want: Want, mine: Mapping[str, int]) -> Want:
        """Give a wish with its limits; where no level gives all that was asked for, it asks for what one gives."""
        if not mine:
            return want
        decision, found = want.decision, self._guard.found(want.cgroup)
        if len(mine) == len(want.placement.groups) and want.cgroup not in mine:
            most = max(found, *(round(limit * found / self._guard.found(group)) for group, limit in mine.items()))
            if most < decision.shares:
                names = " and ".join(mine)
                reason = f"{decision.reason}; {names} by the waiting at its own level: {most} of {decision.shares}"
                decision = replace(decision, shares=most, reason=reason)
        return Want(decision, want.cgroup, want.placement, mine)


def foreign_beside(group: str, want: Want) -> float | None:
    """Sum up the foreign work that a group is acted at for: at its own level, and at those that it stands in for."""
    levels = [one.foreign for one in want.placement.levels if allowed(one.group, want.cgroup) == group]
    known = [foreign for foreign in levels if foreign is not None]
    return sum(known) if known else None
