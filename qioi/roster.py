"""The roster: the components of this host, from the configuration's list, and from engines and systemd.

A cluster's roster is :class:`qioi.kubernetes.roster.ClusterRoster`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from qioi.controller.acting import Change
from qioi.controller.guard.guard import Guard
from qioi.controller.other_lever import NO_OTHER_LEVER, OtherLever
from qioi.controller.policy import Policy
from qioi.discovery.base import Discovery, Found, join
from qioi.discovery.mine import OwnGroups
from qioi.discovery.owners import EngineOwners
from qioi.model import Component, Owner
from qioi.settings.config import Config, policy
from qioi.settings.file import PolicyConfig
from qioi.show.snapshot import Snapshot

NOTHING_FOUND = Found()
#: Most channels that are added because their commits were seen alone; names come from log lines, so they need a bound.
MAX_SEEN = 64


@dataclass(frozen=True, slots=True)
class Listing:
    """The components that exist now, and the policies in force, by channel.

    ``owners`` are the owners of groups above components, by group. ``best_effort`` are neighbours' groups that are
    labelled so. ``complete``: every source of components has listed them once. ``left_out``: there are channels
    beyond :data:`MAX_SEEN`, which have no policy. ``problems`` are those in finding components, by subject.
    """

    components: tuple[Component, ...]
    policies: Mapping[str, Policy]
    owners: Mapping[str, Owner] = field(default_factory=dict)
    best_effort: tuple[str, ...] = ()
    complete: bool = True
    left_out: bool = False
    problems: Mapping[str, str] = field(default_factory=dict)


class Roster(Protocol):
    """A source of components and policies. No call makes the loop wait; methods with a body here are optional."""

    @property
    def other_lever(self) -> OtherLever:
        """The lever that moves some components' shares instead of their groups' files."""
        return NO_OTHER_LEVER

    def adopt(self, config: Config) -> None:
        """Replace the configuration."""
        ...

    def listing(self, seen: tuple[str, ...]) -> Listing:
        """Give the current listing: the same object while nothing changes. ``seen`` names channels with commits."""
        ...

    def problems(self) -> Mapping[str, str]:
        """Give the messages of problems in finding components or telling owners, by subject."""
        return {}

    def attend(self, now: float) -> None:
        """Take in outside changes before a period begins."""
        return

    def retaken(self, now: float, guard: Guard) -> Iterable[tuple[str, str]]:
        """Give components and their groups whose foreign value becomes the new original."""
        return ()

    def take_as_mine(self, group: str) -> tuple[str, ...] | None:
        """Add a group to the operator's own until the next start; give the patterns of all such groups.

        ``None``: this roster does not know the operator's own groups. Any thread may call this.
        """
        return None

    def tell(self, now: float, snapshot: Snapshot, made: Iterable[Change]) -> Snapshot:
        """Take in a period's snapshot and changes; give the snapshot with this roster's part added."""
        return snapshot


class _MergedRoster(Roster):
    """The components that the configuration lists, completed by what is found, and the operator's own groups."""

    _config: Config
    _own: OwnGroups | None
    _found: Found  # what the listing was made of, with those that were seen
    _seen: tuple[str, ...]
    _listing: Listing

    @abstractmethod
    def _there(self) -> Found:
        """Give what is found now: the same object while nothing changes."""

    def listing(self, seen: tuple[str, ...]) -> Listing:
        """Give the list, completed by what is found; merge again only where one of them has changed."""
        found = self._there()
        if found is not self._found or seen != self._seen:
            self._found, self._seen = found, seen
            self._listing = merge(self._config, found, seen)
        return self._listing

    def take_as_mine(self, group: str) -> tuple[str, ...] | None:
        """Add a group to the operator's own."""
        return self._own.add(group) if self._own is not None else None


class FixedRoster(_MergedRoster):
    """The components that the configuration lists, and the operator's own groups."""

    def __init__(self, config: Config, own: OwnGroups | None = None) -> None:
        self._own = own
        self.adopt(config)

    def adopt(self, config: Config) -> None:
        """Replace the list."""
        self._config, self._found = config, NOTHING_FOUND
        self._seen: tuple[str, ...] = ()
        self._listing = Listing(config.components, config.policies)

    def _there(self) -> Found:
        return self._own.found() if self._own is not None else NOTHING_FOUND

    def problems(self) -> Mapping[str, str]:
        """Name the operator's own groups that do not exist, and say whether channels are left out."""
        return {**self._listing.problems, **unprotected(self._listing)}


class FoundRoster(_MergedRoster):
    """The components that discovery finds, added to those that the configuration lists."""

    def __init__(
        self, config: Config, discovery: Discovery, records: EngineOwners | None, own: OwnGroups | None = None
    ) -> None:
        """Make it; ``own`` is the part of the discovery that knows the operator's own groups."""
        self._own = own
        self._config = config
        self._discovery = discovery
        self._records = records
        self._found = Found()  # another than the discovery's, so that the first listing merges
        self._seen: tuple[str, ...] = ()
        self._listing = Listing(config.components, config.policies, complete=False)

    def adopt(self, config: Config) -> None:
        """Replace the configuration; the next listing merges it with what discovery has found."""
        self._config, self._found = config, Found()

    def _there(self) -> Found:
        return self._discovery.found()

    def problems(self) -> Mapping[str, str]:
        """Give the discovery's problems, those of owners' records, and whether channels are left out."""
        problems = {**self._listing.problems, **self._discovery.found().problems}
        if self._records is not None and (behind := self._records.problem()):
            problems["docker update"] = behind
        return {**problems, **unprotected(self._listing)}


def unprotected(listing: Listing) -> dict[str, str]:
    """Give the problem of channels that have no policy, if there are any."""
    if not listing.left_out:
        return {}
    return {
        "channels": f"more than {MAX_SEEN} have commits that no configuration and no label names: the first are "
        "protected, the others once they are named"
    }


def merge(config: Config, found: Found, seen: Iterable[str]) -> Listing:
    """Complete a configuration by the components that were found, and a policy for each of their channels.

    Labels and rules name channels; so do the logs of components that may serve any channel. A threshold of the
    configuration, given or learned, takes precedence over one of a label.
    """
    joined = join((Found(config.components), found))
    policies = dict(config.policies)
    named = dict.fromkeys(channel for one in joined.components for channel in one.channels)
    others = [channel for channel in dict.fromkeys(seen) if channel not in policies and channel not in named]
    for channel in (*named, *others[:MAX_SEEN]):
        if channel not in policies:
            policies[channel] = policy(channel, PolicyConfig(), config.defaults)
    for channel, threshold in found.thresholds.items():
        # A component of the list replaces the one found in its group, and the configuration wins over its label.
        if channel in policies and policies[channel].threshold is None and not policies[channel].auto:
            policies[channel] = replace(policies[channel], threshold=threshold)
    left_out = len(others) > MAX_SEEN
    return Listing(
        joined.components, policies, found.owners, found.best_effort, found.complete, left_out, joined.problems
    )
