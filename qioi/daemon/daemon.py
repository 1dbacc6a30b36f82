"""The loop: logs and scheduler -> readings -> laws -> decisions -> kernel, once a period.

Read :meth:`Daemon.period` for the way of the data; each arrow is one method. Nothing that one
component, log or control group does can end the loop: it is counted, said once, and tried again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import replace
from importlib.metadata import version

from qioi.controller.acting import Actor
from qioi.controller.announce import Said, news
from qioi.controller.findings.bottleneck import HOPELESS, Bottleneck, Kind
from qioi.controller.findings.diagnoses import Diagnoses, anybody_lacks, anybody_suffers
from qioi.controller.findings.leaders import Leaders
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.restore import Outcome, Result
from qioi.controller.laws.adaptive import Tuning, has_room
from qioi.controller.laws.law import Seen
from qioi.controller.laws.thresholds import Thresholds
from qioi.controller.laws.unheard import AllUnheard
from qioi.controller.levels.ancestors import Ancestry
from qioi.controller.levels.cap import Held
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce, Want
from qioi.controller.policy import Controller
from qioi.controller.slicing import SlicePeriod
from qioi.daemon.instruments import Instruments
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.model import ChannelReading, Component, Decision, DelayReading, HostLoad
from qioi.model.groups import chain
from qioi.settings.config import Config
from qioi.show.rows import absent, channel_seen, component_seen
from qioi.show.snapshot import ChannelState, ComponentState, ConfigState, Snapshot, Totals

log = logging.getLogger("qioi")

TUNING = Tuning()


class Daemon:
    """The loop's state: who is held, what the laws remember, what was said."""

    def __init__(self, config: Config, guard: Guard, instruments: Instruments) -> None:
        self._config = config
        self._guard = guard
        self._channels = instruments.channels
        self._delays = instruments.delays
        self._host = instruments.host
        self._stalls = instruments.stalls
        self._levels = instruments.levels
        self._actor = Actor(guard, self._count)
        self._actor.go_on(instruments.kept)
        self._diagnoses = Diagnoses()
        self._capper = instruments.capper
        self._slicer = instruments.slicer
        self._best_effort = instruments.best_effort
        self._files = instruments.files
        self._controller = Controller(config.policies)
        self._leaders = Leaders(self._controller.rest)
        self._ancestry = Ancestry(guard, self._controller.is_literal)
        self._unheard = AllUnheard(self._controller.is_literal)
        self._owners = {one.cgroup: one.owner for one in config.components}
        self._inner = inner(config.components)
        self._said: dict[str, str] = {}
        self._heard: Set[str] = frozenset()  # the sources of the last period, by what is said of them
        self._would: dict[str, Said | None] = {}  # in a dry run
        self._totals = Totals()
        self.thresholds = Thresholds(config.policies)

    def blank(self, actuator: str, cgroup_version: int) -> Snapshot:
        """Make the snapshot from before the first period."""
        config = self._config
        return Snapshot(
            version=version("qioi"),
            pid=os.getpid(),
            time=time.time(),
            period=config.period,
            dry_run=config.dry_run,
            actuator=actuator,
            cgroup_version=cgroup_version,
            channels=tuple(ChannelState(c, p.law, p.threshold) for c, p in config.policies.items()),
            components=tuple(ComponentState(c.name, c.role.value, c.cgroup) for c in config.components),
            configuration=ConfigState(str(config.file), time.time()),
        )

    def adopt(self, config: Config, before: Snapshot) -> Snapshot:
        """Go on with other components, policies, or another period; to be called between two periods.

        Who stays keeps its share and what its laws remember. Who goes, or is nobody's to raise any more, is restored.
        """
        blank = {one.name: ComponentState(one.name, one.role.value, one.cgroup) for one in config.components}
        known = {one.name: one for one in before.components}
        self._controller.adopt(config.policies)
        raised = {one.name for one in config.components if self._controller.policies_for(one)}
        for name, state in known.items():
            if name not in raised or state.cgroup != blank[name].cgroup:
                self._release(name, state.cgroup)
        self._config = config
        self._owners = {one.cgroup: one.owner for one in config.components}
        self._inner = inner(config.components)
        self.thresholds.adopt(config.policies)
        self._channels.watch(config.components, config.policies)
        self._delays.watch(config.components)
        rows = {one.name: one for one in before.channels}
        return replace(
            before,
            period=config.period,
            channels=tuple(
                replace(rows.get(channel) or ChannelState(channel, one.law, one.threshold), law=one.law)
                for channel, one in config.policies.items()
            ),
            components=tuple(
                replace(known[name], role=state.role) if name in known and known[name].cgroup == state.cgroup else state
                for name, state in blank.items()
            ),
        )

    def _release(self, name: str, cgroup: str) -> None:
        """Put back what is not ours to raise any more."""
        outcome = self._actor.release(cgroup)
        self._controller.forget(name)
        self._said.pop(name, None)  # not watched any more, and not well again
        self._would.pop(name, None)
        if outcome is not None:
            self._count(outcome)
            log.info("%s: let go: %s: %s", name, outcome.result, outcome.message)

    def period(self, now: float, before: Snapshot) -> Snapshot:
        """Do one period's work at the monotonic time ``now``."""
        channels = self._channels.read(now)
        delays = self._delays.read(now)
        host = self._host.read([one for name, one in delays.items() if name not in self._inner])
        owed = self.thresholds.step(now, self._config.components, channels, delays, host)
        for channel, threshold in owed.items():
            seen = channels.get(channel)
            self._controller.owe(channel, threshold.beside(seen.throughput if seen else None))
        suffering = anybody_suffers(now, channels, owed)
        stalls = self._stalls.read(now, self._config.components, delays, suffering)
        found = self._diagnoses.step(now, self._config.components, channels, owed, delays, host, stalls)
        placements = self._levels.read(now, self._config.components, delays, self._guard.raised())
        looks = self._look(before.components, placements)
        leaders = self._leaders.step(
            now,
            owed,
            self._config.components,
            self._channels.elections(),
            host,
            {one.name: one for one in before.components},
        )
        floors = {channel: one.factor for channel, one in leaders.items() if one.losses}
        presumed = self._unheard.step(now, self._config.components, channels, self._channels.seen(), delays, host)
        states, wants = self._decide(now, before.components, looks, channels, delays, host, found, floors, presumed)
        states, wants = self._hold_down(now, states, wants, delays, host)
        states, wants, held = self._cap(now, states, wants)
        written = self._totals.writes[Result.OK]
        states = self._act(states, wants)
        moved = self._totals.writes[Result.OK] != written  # a wish may be less than one step of the kernel's file
        slices, idle = before.slices, before.idle_groups
        if not self._config.dry_run:
            disturbed = is_disturbed(now, channels, host)
            waits = any(one.kind is Kind.CPU for one in found.values())
            lacking = anybody_lacks(now, channels, owed, found)
            slices = self._slicer.step(
                SlicePeriod(now, self._config.components, delays, channels, disturbed, moved, lacking)
            )
            idle = self._best_effort.step(now, waits, disturbed, self._owners)
        before = replace(
            before,
            host=host or before.host,
            io_pressure=stalls.io,
            boosts=held,
            slices=slices,
            idle_groups=idle,
            channels=tuple(
                channel_seen(one, channels.get(one.name), owed[one.name], found[one.name], leaders[one.name])
                for one in before.channels
            ),
        )
        return self._report(before, states, now)

    # ---- logs and scheduler -> readings

    def _look(
        self, components: Iterable[ComponentState], placements: Mapping[str, Placement]
    ) -> dict[str, InForce | CgroupError]:
        """Read what is in force for every component, at the level that counts."""
        above: dict[str, str | None] = {}  # most components have these in common
        looks = {state.name: self._look_at(state, placements.get(state.cgroup), above) for state in components}
        self._actor.leave(above, self._owners)
        return looks

    def _look_at(
        self, state: ComponentState, placement: Placement | None, above: dict[str, str | None]
    ) -> InForce | CgroupError:
        placement = placement or Placement((state.cgroup,), "not looked at yet")
        try:
            return self._actor.look(state.cgroup, self._owners[state.cgroup], placement, above)
        except CgroupGoneError as error:
            self._let_go(state.name, state.cgroup)
            return error
        except CgroupError as error:
            return error

    def _let_go(self, name: str, cgroup: str) -> None:
        """Forget a component whose group is gone; it is looked for again in every period."""
        self._actor.let_go(cgroup)
        self._controller.forget(name)
        self._would.pop(name, None)

    # ---- readings -> laws -> decisions

    def _decide(
        self,
        now: float,
        before: Iterable[ComponentState],
        looks: Mapping[str, InForce | CgroupError],
        channels: Mapping[str, ChannelReading],
        delays: Mapping[str, DelayReading],
        host: HostLoad | None,
        found: Mapping[str, Bottleneck],
        floors: Mapping[str, float],
        presumed: Collection[str],
    ) -> tuple[dict[str, ComponentState], tuple[Want, ...]]:
        """Ask the laws about every component whose group is there; say what they want, and where."""
        hopeless = {channel: one.text for channel, one in found.items() if one.kind in HOPELESS}
        known = {state.name: state for state in before}
        after, wants = {}, []
        for component in self._config.components:
            name = component.name
            force, delay = looks[name], delays.get(name)
            if isinstance(force, CgroupError):
                after[name] = absent(known[name], str(force))
                continue
            decision = self._controller.decide(
                now, component, force.share, force.original, channels, delay, host, hopeless, floors, presumed
            )
            if decision is not None:
                wants.append(Want(decision, component.cgroup, force.placement))
            after[name] = component_seen(known[name], force, delay, decision, component)
        return after, tuple(wants)

    # ---- decisions -> kernel

    def _hold_down(
        self,
        now: float,
        states: dict[str, ComponentState],
        wants: tuple[Want, ...],
        delays: Mapping[str, DelayReading],
        host: HostLoad | None,
    ) -> tuple[dict[str, ComponentState], tuple[Want, ...]]:
        """Let groups above components have no more than what is waited for at their own levels asks for."""
        under = self._ancestry.apply(now, wants, delays, host)
        return states if under is wants else self._take(states, under), under

    def _take(self, states: Mapping[str, ComponentState], wants: Iterable[Want]) -> dict[str, ComponentState]:
        """Take over what is left of the laws' wishes, and tell them."""
        after = dict(states)
        for one in (want.decision for want in wants):
            if one.shares != after[one.component].wanted:
                self._controller.limit(one.component, one.shares, one.previous)
                after[one.component] = replace(after[one.component], wanted=one.shares, reason=one.reason)
        return after

    def _cap(
        self, now: float, states: dict[str, ComponentState], wants: tuple[Want, ...]
    ) -> tuple[dict[str, ComponentState], tuple[Want, ...], Held | None]:
        """Take from the wishes what is above the cap on all boosts together, if there is one."""
        if self._config.boost_cap is None:
            return states, wants, None
        wants, held = self._capper.apply(now, wants, self._config.boost_cap)
        return self._take(states, wants), wants, held

    def _act(self, states: Mapping[str, ComponentState], wants: tuple[Want, ...]) -> dict[str, ComponentState]:
        """Have the guard write what has changed; a dry run only says so."""
        after = dict(states)
        changes = [one for one in wants if one.decision.changes and self._differ(one)]
        self._totals = replace(self._totals, decisions=self._totals.decisions + len(changes))
        if self._config.dry_run:
            self._pretend(one.decision for one in wants if not self._guard.is_foreign(one.cgroup))
            return after
        shares, problems = self._actor.act(wants)
        for name, share in shares.items():
            if share != after[name].share:
                after[name] = replace(after[name], share=share)
        for name, problem in problems.items():
            after[name] = replace(after[name], problem=problem)
            if not self._guard.holds(after[name].cgroup):
                self._controller.forget(name)
        return after

    def _differ(self, want: Want) -> bool:
        """Whether a decision asks for a share that a group of ours has not, as far as the kernel's unit can tell."""
        group, decision = want.cgroup, want.decision
        before, after = (self._guard.raw(group, shares) for shares in (decision.previous, decision.shares))
        return before != after and not self._guard.is_foreign(group)

    def _pretend(self, decisions: Iterable[Decision]) -> None:
        """Say what would have been set, where that is news."""
        for one in decisions:
            self._would[one.component], what = news(self._would.get(one.component), one.previous, one.shares)
            if what is not None:
                log.info("%s: dry run: would set %d -> %d: %s", one.component, one.previous, one.shares, one.reason)

    def _count(self, outcome: Outcome) -> None:
        writes = {**self._totals.writes, outcome.result: self._totals.writes[outcome.result] + 1}
        self._totals = replace(self._totals, writes=writes)

    # ---- all of it -> people

    def _report(self, before: Snapshot, states: Mapping[str, ComponentState], now: float) -> Snapshot:
        """Say what is new, and put everything into one value."""
        sources = tuple(self._channels.states())
        heard = {f"{source.kind} of {source.component}": source.problem for source in sources}
        for about in self._heard - heard.keys():
            self._said.pop(about, None)  # gone, and not well again
        self._heard = heard.keys()
        for about, problem in (*((one.name, one.problem) for one in states.values()), *heard.items()):
            self._say(about, problem)
        self._totals = replace(self._totals, periods=self._totals.periods + 1)
        self._files.sweep()
        return replace(
            before,
            time=time.time(),
            components=tuple(states.values()),
            sources=sources,
            loop=time.monotonic() - now,
            totals=self._totals,
        )

    def _say(self, about: str, message: str | None) -> None:
        """Log what is new about somebody's problem, once; and when it is over, that."""
        if message == self._said.get(about):
            return
        if message is None:
            log.info("%s: well again", about)
            del self._said[about]
            return
        self._said[about] = message
        log.warning("%s: %s", about, message)

    def count_early(self) -> None:
        """Note a period that began before its turn."""
        self._totals = replace(self._totals, early=self._totals.early + 1)

    def count_late(self, periods: int) -> None:
        """Note periods that began late, or were left out."""
        self._totals = replace(self._totals, late=self._totals.late + periods)


def inner(components: Iterable[Component]) -> frozenset[str]:
    """Name the components whose groups lie in others': what these do, the others have done too."""
    components = tuple(components)
    groups = {one.cgroup for one in components}
    return frozenset(one.name for one in components if not groups.isdisjoint(chain(one.cgroup)[1:]))


def is_disturbed(now: float, channels: Mapping[str, ChannelReading], host: HostLoad | None) -> bool:
    """Say whether foreign work keeps the host full while commits are made: from the first moment on, to the last."""
    commits = any(one.age is not None and one.age <= TUNING.active_for for one in channels.values())
    looks = () if host is None else (host, replace(host, lasting=None))
    return commits and not all(has_room(Seen(now, host=one), TUNING) for one in looks)
