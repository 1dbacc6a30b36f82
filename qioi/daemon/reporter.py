"""Report a period's outcome in log lines and as one snapshot."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping, Set
from importlib.metadata import version

from msgspec.structs import replace

from qioi.controller.acting import Outcomes
from qioi.controller.announce import News
from qioi.controller.deciding import Decisions
from qioi.controller.findings.finder import Findings
from qioi.controller.guard.restore import Outcome
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import Component, Decision
from qioi.monitor.commits.sources import SourceState
from qioi.settings.config import Config
from qioi.show.snapshot import ChannelState, ComponentState, ConfigState, Snapshot, Totals
from qioi.show.states import channel_after, component_states

log = logging.getLogger("qioi")


class Reporter:
    """Logs each change of state once, and counts."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._heard: Set[str] = frozenset()  # the last period's sources, as log lines name them
        self._would = News()  # what a dry run logs of each component
        self._totals = Totals()

    def blank(self, config: Config, actuator: str, cgroup_version: int) -> Snapshot:
        """Make the snapshot to show before the first period."""
        return Snapshot(
            version=version("qioi"),
            pid=os.getpid(),
            time=time.time(),
            period=config.period,
            dry_run=config.dry_run,
            actuator=actuator,
            cgroup_version=cgroup_version,
            channels=tuple(channel_rows((), config.policies)),
            components=tuple(blank_row(one) for one in config.components),
            configuration=ConfigState(str(config.file), time.time()),
        )

    def report(self, before: Snapshot, period: Period, decisions: Decisions, outcomes: Outcomes) -> Snapshot:
        """Log components' problems, and make the snapshot of a period."""
        findings = decisions.findings
        states = component_states(period, decisions, outcomes)
        for one in states:
            self.say(one.name, one.problem)
        self._totals = replace(
            self._totals, periods=self._totals.periods + 1, decisions=self._totals.decisions + outcomes.decided
        )
        return replace(
            before,
            host=period.host or before.host,
            io_pressure=period.stalls.io,
            boosts=decisions.held,
            slices=outcomes.slices or before.slices,
            idle_groups=before.idle_groups if outcomes.idle is None else outcomes.idle,
            channels=tuple(channel_state(one, period, findings) for one in before.channels),
            components=states,
            time=time.time(),
            totals=self._totals,
        )

    def hear(self, sources: tuple[SourceState, ...]) -> None:
        """Log changes in the state of the sources of commits."""
        heard = {f"{source.kind} of {source.component}": source.problem for source in sources}
        for about in self._heard - heard.keys():
            self._said.pop(about, None)  # the source is gone, so "well again" would be wrong
        self._heard = heard.keys()
        for about, problem in heard.items():
            self.say(about, problem)

    def say(self, about: str, message: str | None) -> None:
        """Log a problem once when it appears or changes, and once when it ends."""
        if message == self._said.get(about):
            return
        if message is None:
            log.info("%s: well again", about)
            del self._said[about]
            return
        self._said[about] = message
        log.warning("%s: %s", about, message)

    def pretend(self, decisions: Iterable[Decision]) -> None:
        """Log what a dry run would have set, where it is new."""
        for one in decisions:
            if self._would.of(one.component, one.previous, one.shares) is not None:
                log.info("%s: dry run: would set %d -> %d: %s", one.component, one.previous, one.shares, one.reason)

    def forget(self, name: str, *, gone: bool = False) -> None:
        """Forget what was logged of a component that is not watched, or whose group is ``gone``."""
        self._would.forget(name)
        if not gone:
            self._said.pop(name, None)

    def count_write(self, outcome: Outcome) -> None:
        """Count the outcome of a write."""
        writes = {**self._totals.writes, outcome.result: self._totals.writes[outcome.result] + 1}
        self._totals = replace(self._totals, writes=writes)

    def count_periods(self, *, early: int = 0, late: int = 0) -> None:
        """Count periods that began early, and periods that began late or were skipped."""
        self._totals = replace(self._totals, early=self._totals.early + early, late=self._totals.late + late)


def blank_row(one: Component) -> ComponentState:
    """Give the row of a component that was not observed yet."""
    return ComponentState(one.name, one.role.value, one.cgroup)


def channel_rows(before: Iterable[ChannelState], policies: Mapping[str, Policy]) -> Iterable[ChannelState]:
    """Give the rows of all channels; a channel shown before keeps its row."""
    rows = {one.name: one for one in before}
    for channel, one in policies.items():
        yield replace(rows.get(channel) or ChannelState(channel, one.law, one.threshold), law=one.law)


def channel_state(before: ChannelState, period: Period, findings: Findings) -> ChannelState:
    """Give a channel's row after a period."""
    name = before.name
    return channel_after(
        before, period.channels.get(name), period.owed[name], findings.bottlenecks[name], findings.leaders[name]
    )
