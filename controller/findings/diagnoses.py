"""What every channel and every component waits for, found once a period and said when it changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set

from msgspec import Struct, field

from qioi.controller.findings.bottleneck import (
    HOPELESS,
    SMOOTH,
    Bottleneck,
    Diagnosis,
    Kind,
    Machine,
    Times,
    is_stalled,
    judge,
    said,
    suffers,
    together,
)
from qioi.controller.findings.channels import SeenChannels
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.law import Seen
from qioi.controller.laws.need import is_below, load_of, weight
from qioi.controller.levels.placement import Level
from qioi.controller.period import Period
from qioi.model import Role
from qioi.model.names import few
from qioi.model.serving import Serving

log = logging.getLogger("qioi")

#: What is worth a line in the log: the rest comes and goes with every neighbour, and is what the daemon is for.
SAID = HOPELESS | {Kind.LEDGER, Kind.ELSEWHERE}
#: CPUs of foreign work inside a group with a quota from which on a share decides who gets the quota.
INSIDE = 0.05

UNKNOWN = Bottleneck(Kind.UNKNOWN, "no scheduling of its components is known")


class Diagnosed(Struct, frozen=True):
    """One period's, of ``channels``, and the limits that follow, by component.

    Components in ``waiting`` wait for the CPU. ``lacking`` names channels that commit, and do less than they are owed
    for want of it.
    """

    channels: Mapping[str, Bottleneck]
    waiting: frozenset[str] = frozenset()
    limits: Mapping[str, Limit] = field(default_factory=dict)
    lacking: frozenset[str] = frozenset()


class Diagnoses:
    """All that is remembered from one period to the next."""

    def __init__(self) -> None:
        self._components: dict[str, Diagnosis] = {}
        self._channels: dict[str, Bottleneck] = {}
        self._machine: Machine | None = None
        self._serving = Serving()

    def step(self, period: Period, seen: SeenChannels) -> Diagnosed:
        """Take one period in; say what each component, and each channel that is owed anything, waits for."""
        machine = self._look_at_host(period)
        self._components = self._look_at_components(period, machine, {name for name in seen if suffers(seen[name])})
        ran = {name for name, one in period.delays.items() if one.run + one.wait > 0}
        sums: dict[tuple[str, ...], Times | None] = {}  # many channels may have the same components
        found = {}
        for channel, one in seen.items():
            names = self._serving.names(channel, period.components)
            if names not in sums:
                sums[names] = self._sum(names) if not ran.isdisjoint(names) else None
            before = self._channels.get(channel, Bottleneck())
            found[channel] = after = self._judge(names, sums[names], machine, one, before)
            tell(channel, before, after)
        self._channels = found
        waiting = frozenset(name for name, one in self._components.items() if one.kind is Kind.CPU)
        lacking = frozenset(
            channel
            for channel, one in (seen.items() if waiting else ())
            if not is_stalled(one)
            and is_below(one)
            and not waiting.isdisjoint(self._serving.names(channel, period.components))
        )
        return Diagnosed(found, waiting, self._limits(period, machine), lacking)

    def _look_at_host(self, period: Period) -> Machine:
        new = Machine.read(period.stalls, period.host)
        interval = max((one.interval for one in period.delays.values()), default=0.0)
        self._machine = new if self._machine is None else self._machine.add(new, weight(interval, SMOOTH))
        return self._machine

    def _look_at_components(self, period: Period, machine: Machine, suffering: Set[str]) -> dict[str, Diagnosis]:
        after = {}
        for one in period.components:
            delay = period.delays.get(one.name)
            if delay is None or one.role is Role.CLIENT:
                continue
            new = Times.read(delay, period.stalls, load_of(period.host, one.name))
            its = not suffering.isdisjoint(one.channels) if one.channels else bool(suffering)
            before = self._components.get(one.name, Diagnosis())
            after[one.name] = before.step(new, delay.interval, machine, its)
        return after

    def _sum(self, names: tuple[str, ...]) -> Times:
        return together(
            one.times for name in names if (one := self._components.get(name)) is not None and one.times is not None
        )

    def _judge(
        self, names: tuple[str, ...], times: Times | None, machine: Machine, seen: Seen, before: Bottleneck
    ) -> Bottleneck:
        """Judge a channel by the sum of its components' times; name the components of which that is true."""
        if times is None:
            return UNKNOWN
        kind = judge(times, machine, suffers(seen), before.kind)
        if is_stalled(seen) and kind in (Kind.LEDGER, Kind.ELSEWHERE):
            return Bottleneck(Kind.NONE, f"no commits for {seen.commit_age:.0f} s, and nothing waits: nobody sends")
        text = said(kind, times, machine)
        if kind not in HOPELESS:
            return Bottleneck(kind, text)
        whose = few(name for name in names if name in self._components and self._components[name].kind is kind)
        return Bottleneck(kind, f"{text} ({whose})" if whose else text)

    def _limits(self, period: Period, machine: Machine) -> dict[str, Limit]:
        """Say who gets no more than it has, because no share helps it."""
        limits = {}
        for name, one in self._components.items():
            if one.kind not in HOPELESS or one.times is None:
                continue
            text = said(one.kind, one.times, machine)
            if one.kind is Kind.QUOTA:
                group = period.stalls.quotas.get(name)
                force = period.forces.get(name)
                if group is not None and force is not None and is_divided(group, force.placement.levels):
                    continue
                text += f" ({group}'s)" if group is not None else ""
            limits[name] = Limit(Reason(one.kind.value), text)
        return limits


def is_divided(group: str, levels: tuple[Level, ...]) -> bool:
    """Whether foreign work uses a group's quota too: a share at a level inside of the group says who gets it."""
    return any(one.group.startswith(f"{group}/") and (one.foreign or 0.0) >= INSIDE for one in levels)


def tell(channel: str, before: Bottleneck, after: Bottleneck) -> None:
    """Log a bottleneck that no share helps against, once, and its end."""
    if after.kind is before.kind:
        return
    if after.kind in SAID:
        log.log(logging.WARNING if after.kind in HOPELESS else logging.INFO, "channel %s: %s", channel, after.text)
    elif before.kind in SAID:
        log.info("channel %s: that is over: %s", channel, after.text)
