"""The daemon's loop body: observe, decide, act, report, once a period.

Read :meth:`Daemon.period` for the way of the data. No failure of a component, log or control group ends the loop: the
failure is counted, logged once, and tried again.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from queue import SimpleQueue

from msgspec.structs import replace

from qioi.controller.acting import Actor, Outcomes
from qioi.controller.deciding import Controller, Decisions
from qioi.controller.findings.channels import idle_components
from qioi.controller.findings.finder import Finder, is_disturbed
from qioi.controller.guard.guard import Guard
from qioi.controller.laws.thresholds import Thresholds
from qioi.controller.levels.ancestors import Ancestry
from qioi.controller.levels.cap import held_down
from qioi.controller.levels.placement import NOBODY
from qioi.controller.period import Period
from qioi.controller.slicing import SlicePeriod
from qioi.daemon.instruments import Instruments
from qioi.daemon.known_shares import KnownShares
from qioi.daemon.observer import Observer
from qioi.daemon.reporter import Reporter, blank_row, channel_rows
from qioi.model import Role
from qioi.model.groups import chain
from qioi.roster import Listing, Roster
from qioi.settings.config import Config
from qioi.show.snapshot import Snapshot

log = logging.getLogger("qioi")

#: Seconds that shares of an earlier daemon stay while a source of components does not answer. An engine that is
#: restarted together with the daemon needs some of them.
LISTING_PATIENCE = 60.0


class Daemon:
    """Runs periods. ``roster`` names the components; no class derives from this one."""

    def __init__(
        self, config: Config, guard: Guard, instruments: Instruments, roster: Roster, kept: tuple[str, ...] = ()
    ) -> None:
        """Make it before its first period; ``kept`` are groups that an earlier daemon left raised on purpose."""
        self._thresholds = Thresholds(config.policies)
        #: Operators' orders, a channel and what it is owed, until the next period begins.
        self._orders: SimpleQueue[tuple[str, float | None]] = SimpleQueue()
        self._config = config
        self._roster = roster
        self._listing = Listing(config.components, config.policies)
        self._reporter = Reporter()
        self._actor = Actor(guard, self._reporter.count_write, roster.other_lever)
        self._observer = Observer(instruments, self._actor, self._thresholds)
        self._observer.watch(config.components, config.policies)
        self._known = None if config.dry_run else KnownShares(config.state_dir)
        self._controller = Controller(config.policies, self._known.load() if self._known else None)
        self._finder = Finder(self._controller.rest, self._controller.is_literal, config.neighbours_keep, guard.weigh)
        self._ancestry = Ancestry(guard, self._controller.is_literal)
        self._capper = instruments.capper
        self._slicer = instruments.slicer
        self._best_effort = instruments.best_effort
        self._kept_back = NOBODY
        self._kept = kept
        self._kept_until: float | None = None

    def blank(self, actuator: str, cgroup_version: int) -> Snapshot:
        """Make the snapshot to show before the first period."""
        return self._reporter.blank(self._config, actuator, cgroup_version)

    def adopt(self, config: Config, before: Snapshot) -> Snapshot:
        """Replace the configuration; call it between two periods."""
        self._config = config
        self._finder.adopt(config.neighbours_keep)
        self._roster.adopt(config)
        return self._go_on(before)

    def period(self, now: float, before: Snapshot) -> Snapshot:
        """Do one period's work at the monotonic time ``now``."""
        before = self._attend(now, before)
        period = self.observe(now)
        decisions = self.decide(period)
        outcomes = self.act(period, decisions)
        return self.report(before, period, decisions, outcomes)

    # ---- the four steps

    def observe(self, now: float) -> Period:
        """Read operators' orders, logs, scheduler, host and control groups."""
        while not self._orders.empty():
            self._thresholds.order(*self._orders.get())
        return self._observer.observe(now, self._listing.components, self._kept_back)

    def decide(self, period: Period) -> Decisions:
        """Ask the laws about every component whose group exists; limit what they want by levels and cap."""
        for name in period.gone:
            self._controller.forget(name)
            self._reporter.forget(name, gone=True)
        findings = self._finder.step(period, self._slicer.trying)
        self._kept_back = findings.kept_back
        asked = self._controller.decide_all(period, findings)
        idle = idle_components(period.components, findings.sent_to)
        wants = self._ancestry.apply(period.now, asked, period.delays, period.host, idle)
        held, capped = None, frozenset[str]()
        if self._config.boost_cap is not None:
            uncapped = wants
            wants, held = self._capper.apply(period.now, wants, self._config.boost_cap)
            capped = held_down(uncapped, wants)
        self._finder.answer(asked, capped)
        self._controller.limit_all(asked, wants)
        return Decisions(findings, wants, held)

    def act(self, period: Period, decisions: Decisions) -> Outcomes:
        """Let the guard write what has changed; a dry run only logs it."""
        wants = decisions.wants
        if self._config.dry_run:
            self._reporter.pretend(self._actor.ours(wants))
            return Outcomes(decided=self._actor.count_changes(wants))
        outcomes = self._actor.act(wants)
        for name in outcomes.lost:
            self._controller.forget(name)
        for one in outcomes.released:
            self._forget(one)
        findings, acted = decisions.findings, self._controller.acted_on(period)
        disturbed = findings.disturbed if acted is period else is_disturbed(acted)
        slices = self._slicer.step(
            SlicePeriod(
                period.now,
                acted.components,
                period.delays,
                acted.channels,
                disturbed,
                outcomes.moved or findings.trying,
                not findings.lacking.isdisjoint(acted.channels),
            )
        )
        if (starved := findings.presumed.intersection(acted.channels)) and not disturbed:
            disturbed = is_disturbed(acted, starved)
        waits = bool(starved) or not findings.waiting.isdisjoint(one.name for one in acted.components)
        groups = [one.cgroup for one in period.components]
        idle = self._best_effort.step(period.now, waits, disturbed, groups, self._actor.guard.changed)
        return dataclasses.replace(outcomes, slices=slices, idle=idle)

    def report(self, before: Snapshot, period: Period, decisions: Decisions, outcomes: Outcomes) -> Snapshot:
        """Log what is new, and make the snapshot of the period."""
        after = self._reporter.report(before, period, decisions, outcomes)
        disturbed = decisions.findings.disturbed or decisions.findings.waiting
        foreigners = self._observer.foreigners(period.now) if disturbed else ()
        sources = self._observer.sources()
        self._reporter.hear(sources)
        for name, group in self._roster.retaken(period.now, self._actor.guard):
            self._actor.let_go(group)
            self._controller.forget(name)
        after = self._roster.tell(period.now, after, outcomes.made)
        if self._known is not None:
            self._known.store(self._controller.known)
        self._observer.end()
        return replace(after, sources=sources, foreigners=foreigners, loop=time.monotonic() - period.now)

    # ---- the roster

    def _attend(self, now: float, before: Snapshot) -> Snapshot:
        """Take in components that came or left, and the roster's problems."""
        self._roster.attend(now)
        if self._roster.listing(self._observer.seen()) is not self._listing:
            before = self._go_on(before)
        if self._kept:
            self._take_over(now)
        problems = self._roster.problems()
        for about in {**before.problems, **problems}:
            self._reporter.say(about, problems.get(about))
        return replace(before, problems=problems)

    def _take_over(self, now: float) -> None:
        """Take over the groups that an earlier daemon kept: what no component needs is put back from then on.

        A component that is not listed yet may need its share, so each source has :data:`LISTING_PATIENCE` seconds. One
        that is listed may serve channels that nothing names before their next commit.
        """
        if self._kept_until is None:
            self._kept_until = now + LISTING_PATIENCE
        if now < self._kept_until and not (self._listing.complete and self._covers_kept()):
            return
        if not self._listing.complete:
            log.warning(
                "not every source of components has answered in %g s: of the shares that the daemon before this one "
                "has kept, those go back that no known component needs",
                LISTING_PATIENCE,
            )
        self._actor.go_on(self._kept)
        self._kept = ()

    def _covers_kept(self) -> bool:
        """Whether no kept group is that of a component, or above one, to which a commit may yet give a policy."""
        unnamed = (one for one in self._listing.components if not one.channels and one.role is not Role.CLIENT)
        uncovered = (one for one in unnamed if not self._controller.policies_for(one))
        return all(set(self._kept).isdisjoint(chain(one.cgroup)) for one in uncovered)

    def _go_on(self, before: Snapshot) -> Snapshot:
        """Adopt the roster's listing.

        Components that stay keep their share and their laws' memory. One whose group another name has now keeps its
        share, and what was enough. Components that left, or that no policy covers, are restored; kept ones once that is
        over which :meth:`_take_over` waits for.
        """
        listing = self._listing = self._roster.listing(self._observer.seen())
        self._controller.adopt(listing.policies)
        self._actor.adopt(listing.owners)
        self._best_effort.adopt(listing.best_effort)
        names = {one.cgroup: one.name for one in listing.components if self._controller.policies_for(one)}
        others = [one for one in before.components if names.get(one.cgroup) != one.name]
        for one in others:
            if one.cgroup not in names and one.cgroup not in self._kept:
                self._actor.put_back(one.name, one.cgroup)
            self._forget(one.name)
        self._controller.rename({one.name: names[one.cgroup] for one in others if one.cgroup in names})
        self._observer.watch(listing.components, listing.policies)
        known = {(one.name, one.cgroup): one for one in before.components}
        rows = (blank_row(one) for one in listing.components)
        return replace(
            before,
            period=self._config.period,
            channels=tuple(channel_rows(before.channels, listing.policies)),
            components=tuple(
                replace(known[key], role=row.role) if (key := (row.name, row.cgroup)) in known else row for row in rows
            ),
        )

    def _forget(self, name: str) -> None:
        """Drop the laws and messages of a component that was restored."""
        self._controller.forget(name)
        self._reporter.forget(name)

    def set_threshold(self, channel: str, value: float | None) -> None:
        """Set what a channel is owed from the next period on, until the next start, in transactions per second.

        ``None`` has it learned. Any thread may call this.
        """
        self._orders.put((channel, value))

    def take_up(self, name: str) -> None:
        """Act again on a component whose share somebody else changed; any thread may call this."""
        self._actor.take_up(name)

    def count_early(self) -> None:
        """Count a period that began early."""
        self._reporter.count_periods(early=1)

    def count_late(self, periods: int) -> None:
        """Count periods that began late, or were skipped."""
        self._reporter.count_periods(late=periods)
