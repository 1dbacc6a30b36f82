"""The daemon whose components come and go: what is found is added to what the configuration lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from qioi.controller.guard.guard import Guard
from qioi.daemon.daemon import Daemon
from qioi.daemon.instruments import Instruments
from qioi.discovery.base import Discovery, Found, join
from qioi.discovery.owners import EngineOwners
from qioi.settings.config import Config, PolicyConfig, policy
from qioi.show.snapshot import Snapshot

#: Channels that are taken on because commits of them were seen; names come from log lines, so they are bounded.
MAX_SEEN = 64


class DiscoveringDaemon(Daemon):
    """Looks at a discovery before each period; it never waits for one."""

    def __init__(
        self,
        config: Config,
        guard: Guard,
        instruments: Instruments,
        discovery: Discovery,
        records: EngineOwners | None,
    ) -> None:
        super().__init__(config, guard, replace(instruments, kept=()))
        self._kept = instruments.kept  # whose groups they are is known once everybody was asked
        self._listed = config
        self._discovery = discovery
        self._records = records
        self._found = Found()
        self._seen: tuple[str, ...] = ()

    def adopt(self, config: Config, before: Snapshot) -> Snapshot:
        """Go on with another configuration, and with what is found now."""
        self._listed = config
        self._found, self._seen = self._discovery.found(), self._channels.seen()
        self._actor.owners = self._found.owners
        self._best_effort.labelled = self._found.best_effort
        return super().adopt(merge(config, self._found, self._seen), before)

    def period(self, now: float, before: Snapshot) -> Snapshot:
        """Take in what has come or gone, then do one period's work."""
        told = before.problems
        if self._discovery.found() is not self._found or self._channels.seen() != self._seen:
            before = self.adopt(self._listed, before)
        problems = dict(self._found.problems)
        if self._kept and not any("not asked yet" in text for text in problems.values()):
            self._actor.go_on(self._kept)
            self._kept = ()
        if self._records is not None and (behind := self._records.problem()):
            problems["docker update"] = behind
        for about in {**told, **problems}:
            self._say(about, problems.get(about))
        return super().period(now, replace(before, problems=problems))


def merge(config: Config, found: Found, seen: Iterable[str]) -> Config:
    """Complete a configuration: the components that were found, and a policy for every channel of theirs.

    Channels are those that labels or rules name, and those that were seen in logs of components that serve any.
    A threshold of the configuration, given or to be learned, wins over one of a label.
    """
    joined = join((Found(config.components), found))
    policies = dict(config.policies)
    named = [channel for one in joined.components for channel in one.channels]
    for channel in dict.fromkeys((*named, *list(seen)[:MAX_SEEN])):
        if channel not in policies:
            policies[channel] = policy(channel, PolicyConfig(), config.defaults)
    for channel, threshold in found.thresholds.items():
        # A component of the list stands in for what was found in its group, whatever that is labelled.
        if channel in policies and policies[channel].threshold is None and not policies[channel].auto:
            policies[channel] = replace(policies[channel], threshold=threshold)
    return replace(config, components=joined.components, policies=policies)
