"""Who the components are: a fixed list, or what engines and systemd tell, added to it.

A cluster's roster is :class:`qioi.kubernetes.roster.ClusterRoster`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from qioi.controller.acting import NO_OTHER_LEVER, Change, OtherLever
from qioi.controller.guard.guard import Guard
from qioi.controller.policy import Policy
from qioi.discovery.base import Discovery, Found, join
from qioi.discovery.mine import OwnGroups
from qioi.discovery.owners import EngineOwners
from qioi.model import Component, Owner
from qioi.settings.config import Config, PolicyConfig, policy
from qioi.show.snapshot import Snapshot

NOTHING_FOUND = Found()
#: Channels that are taken on because commits of them were seen; names come from log lines, so they are bounded.
MAX_SEEN = 64


@dataclass(frozen=True, slots=True)
class Listing:
    """The components that are there now, and the policies in force, by channel.

    ``owners`` name who keeps a record of the share of groups above components, by group. ``best_effort`` are
    neighbours' groups that their owners have labelled so. ``complete``: everybody who can name components was asked.
    """

    components: tuple[Component, ...]
    policies: Mapping[str, Policy]
    owners: Mapping[str, Owner] = field(default_factory=dict)
    best_effort: tuple[str, ...] = ()
    complete: bool = True


class Roster(Protocol):
    """A source of components and policies. It never lets the loop wait. What it has to add to a period is optional."""

    @property
    def other_lever(self) -> OtherLever:
        """How some components' shares are moved if not by their groups."""
        return NO_OTHER_LEVER

    def adopt(self, config: Config) -> None:
        """Go on with another configuration."""
        ...

    def listing(self, seen: tuple[str, ...]) -> Listing:
        """Give what is there: the same object as long as nothing has changed. ``seen`` names channels with commits."""
        ...

    def problems(self) -> Mapping[str, str]:
        """Say, by what they are about, what could not be found or told."""
        return {}

    def attend(self, now: float) -> None:
        """Note what has happened outside before a period begins."""
        return

    def retaken(self, now: float, guard: Guard) -> Iterable[tuple[str, str]]:
        """Name groups, each with its component, whose foreign value is to be taken for a new original."""
        return ()

    def take_as_mine(self, group: str) -> tuple[str, ...] | None:
        """Take a group for the operator's own until the next start; ``None``: this roster has no such groups.

        May be called from any thread. Give the patterns of all such groups.
        """
        return None

    def tell(self, now: float, snapshot: Snapshot, made: Iterable[Change]) -> Snapshot:
        """Pass on what came of a period; give the snapshot with what this roster knows beside."""
        return snapshot


class FixedRoster(Roster):
    """The list that stands in the configuration, and the groups that the operator has called ``own``."""

    def __init__(self, config: Config, own: OwnGroups | None = None) -> None:
        self._own = own
        self.adopt(config)

    def adopt(self, config: Config) -> None:
        """Go on with another list."""
        self._config, self._found = config, NOTHING_FOUND
        self._listing = Listing(config.components, config.policies)

    def listing(self, seen: tuple[str, ...]) -> Listing:
        """Give the list, with the groups that are there."""
        found = self._own.found() if self._own is not None else NOTHING_FOUND
        if found is not self._found:
            self._found = found
            components = join((Found(self._config.components), found)).components
            self._listing = Listing(components, self._config.policies)
        return self._listing

    def problems(self) -> Mapping[str, str]:
        """Say which of the operator's own groups are not there."""
        return self._found.problems

    def take_as_mine(self, group: str) -> tuple[str, ...] | None:
        """Take a group in."""
        return self._own.add(group) if self._own is not None else None


class FoundRoster(Roster):
    """What is found by a discovery, added to what the configuration lists."""

    def __init__(
        self, config: Config, discovery: Discovery, records: EngineOwners | None, own: OwnGroups | None = None
    ) -> None:
        """Begin; ``own`` is the part of the discovery that knows the operator's own groups."""
        self._own = own
        self._config = config
        self._discovery = discovery
        self._records = records
        self._found: Found | None = None
        self._seen: tuple[str, ...] = ()
        self._listing = Listing(config.components, config.policies, complete=False)

    def adopt(self, config: Config) -> None:
        """Go on with another configuration, and with what is found now."""
        self._config, self._found = config, None

    def listing(self, seen: tuple[str, ...]) -> Listing:
        """Merge what is found with the list, where either has changed."""
        found = self._discovery.found()
        if found is not self._found or seen != self._seen:
            self._found, self._seen = found, seen
            self._listing = merge(self._config, found, seen)
        return self._listing

    def take_as_mine(self, group: str) -> tuple[str, ...] | None:
        """Take a group in."""
        return self._own.add(group) if self._own is not None else None

    def problems(self) -> Mapping[str, str]:
        """Say what the discovery says, and which record of an owner could not be changed."""
        problems = dict(self._discovery.found().problems)
        if self._records is not None and (behind := self._records.problem()):
            problems["docker update"] = behind
        return problems


def merge(config: Config, found: Found, seen: Iterable[str]) -> Listing:
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
    return Listing(joined.components, policies, found.owners, found.best_effort, found.complete)
