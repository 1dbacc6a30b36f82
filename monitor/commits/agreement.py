"""The throughput that several organisations' peers agree on.

An organisation runs its own peers, and may have one write what it likes into its log. So each organisation's peers are
counted by themselves, and where several organisations report a channel, the second highest of their rates counts: no
single one can make a channel look better served than another sees it. That of two honest ones is the channel's own,
since all peers commit the same blocks; one that catches up with old blocks has a higher one, and changes nothing.

An organisation that falls silent keeps the rate of its last commit for a while: a peer that has stopped lowers
no rate, and one that starves is not silent for long. At most :data:`WITNESSES` organisations are counted per channel.

A peer that catches up while the others have nothing to commit reports alone, and its own rate counts. No front of an
organisation that is silent holds it back: that front could be forged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from qioi.model import ChannelReading, Commit
from qioi.model.names import MAX_CHANNELS
from qioi.monitor.commits.interval import LONGEST
from qioi.monitor.commits.throughput import DEFAULT_WINDOW, Throughput

#: Organisations that are counted of a channel: of more the others are not looked at while these report.
WITNESSES = 3
#: Windows of silence after which an organisation does not count, while another one reports.
ABSENT = 3.0


@dataclass(slots=True)
class _Witnesses:
    """Whose peers report one channel."""

    #: When each organisation was last heard of, by its name.
    heard: dict[str, float] = field(default_factory=dict)
    #: What was agreed on before an organisation was first heard of.
    before: dict[str, int] = field(default_factory=dict)
    #: Transactions that were agreed on so far.
    agreed: int = 0
    rank: int = 0
    #: Whether no peer is watched that has reported it.
    orphaned: bool = False


class AgreedThroughput:
    """The throughput of every channel, by the commits that peers report."""

    def __init__(self, window: float = DEFAULT_WINDOW) -> None:
        self._window = window
        self._organisations: Mapping[str, str] = {}
        self._watched: frozenset[str] = frozenset()
        self._expected: frozenset[str] = frozenset()
        self._meters: dict[str, Throughput] = {}
        self._channels: dict[str, _Witnesses] = {}
        self._has_orphans = False  # perhaps: looked for when there is no room, and made only when peers leave

    def organise(self, organisations: Mapping[str, str], expected: Iterable[str]) -> None:
        """Watch these peers from now on, each with its organisation, and expect the channels that are configured.

        A peer without an organisation is its own.
        """
        self._expected = frozenset(expected)
        for meter in self._meters.values():
            meter.expected = self._expected
        leaving = self._organisations.keys() - organisations.keys()
        for peer in leaving:
            its = self._meters.get(self._organisations[peer])
            if its is not None:
                its.forget(peer)
        for name, channel in self._channels.items() if leaving else ():
            channel.orphaned = not any(self._meters[its].is_reported(name) for its in channel.heard)
            self._has_orphans |= channel.orphaned
        self._organisations = dict(organisations)
        self._watched = frozenset(organisations.values())

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that commits were seen of, each peer's first ones first: so none crowds others out.

        Last come those whose peers have all left: where networks come and go, what is gone crowds nothing out.
        """
        return tuple(
            sorted(self._channels, key=lambda name: (self._channels[name].orphaned, self._channels[name].rank))
        )

    def heard(self, since: float) -> tuple[str, ...]:
        """Name the channels that a commit came of at that instant or later."""
        return tuple(name for name, one in self._channels.items() if max(one.heard.values()) >= since)

    def observe(self, commit: Commit, instant: float) -> None:
        """Take one peer's report of one block."""
        channel, name = self._channels.get(commit.channel), commit.channel
        its = self._organisations.get(commit.peer, commit.peer)
        if channel is None:
            if len(self._channels) >= MAX_CHANNELS and not self._make_room():
                return
            channel = _Witnesses()
        if its not in channel.heard and not self._admit(channel, name, instant):
            return
        meter = self._meters.get(its)
        if meter is None:
            meter = self._meters[its] = Throughput(self._window)
            meter.expected = self._expected
        meter.observe(commit, instant)
        rank = meter.rank(name)
        if rank is None:  # the peer has named too many
            return
        if its not in channel.heard:
            channel.before[its] = channel.agreed
            if not channel.heard:
                channel.rank = rank
            self._channels[name] = channel
            channel.heard[its] = instant
        elif instant > channel.heard[its]:
            channel.heard[its] = instant
        channel.orphaned = False

    def _make_room(self) -> bool:
        """Forget a channel that no watched peer has reported, if there is one."""
        if not self._has_orphans:
            return False
        orphan = next((name for name, one in self._channels.items() if one.orphaned), None)
        if orphan is None:
            self._has_orphans = False
            return False
        for its in self._channels.pop(orphan).heard:
            self._drop(its, orphan)
        return True

    def _drop(self, its: str, name: str) -> None:
        self._meters[its].drop(name)
        if not self._meters[its].channels:
            del self._meters[its]

    def _admit(self, channel: _Witnesses, name: str, instant: float) -> bool:
        """Make room for one more organisation, if one that was counted is silent or watched no more.

        All are silent between two blocks. Nobody makes room within :data:`LONGEST` seconds, since it takes some blocks
        to know how far apart they come.
        """
        if len(channel.heard) < WITNESSES:
            return True
        watched = self._watched or channel.heard
        quiet = {its: heard for its, heard in channel.heard.items() if heard < instant - LONGEST or its not in watched}
        if not quiet:
            return False  # as nearly always: most peers' reports of every block come this way
        silent = instant - self._longest_silence(channel, name)
        leaving = next((its for its, heard in quiet.items() if heard < silent or its not in watched), None)
        if leaving is None:
            return False
        del channel.heard[leaving], channel.before[leaving]
        self._drop(leaving, name)
        return True

    def skipped(self, peer: str, size: int) -> None:
        """Take in that a part of a peer's log was passed over, so many bytes."""
        meter = self._meters.get(self._organisations.get(peer, peer))
        if meter is not None:
            meter.skipped(peer, size)

    def prune(self, now: float) -> None:
        """Forget what no window needs any more, of all channels; once a period.

        A window of an organisation that is silent ends at its last commit, as long ago as the newest one is now.
        """
        for name, channel in self._channels.items():
            newest = max(channel.heard.values())
            for its, heard in channel.heard.items():
                self._meters[its].prune(name, now - (newest - heard))
        for meter in self._meters.values():
            meter.bound()

    def reading(self, name: str, now: float) -> ChannelReading:
        """Say what the window that ends now shows."""
        channel = self._channels.get(name)
        if channel is None:
            return ChannelReading(name, None, None)
        newest = max(channel.heard.values())
        # At an organisation's own last commit, as long ago as the newest one is now.
        readings = {
            its: self._meters[its].reading(name, now - (newest - heard))
            for its, heard in self._present(channel, name, newest)
        }
        totals = sorted((self._meters[its].transactions(name) + channel.before[its] for its in readings), reverse=True)
        channel.agreed = max(channel.agreed, totals[min(1, len(totals) - 1)])
        known = [one for one in readings.values() if one.throughput is not None] or list(readings.values())
        known.sort(key=lambda one: one.throughput or 0.0, reverse=True)
        chosen = known[min(1, len(known) - 1)]
        ages = [one.age for one in readings.values() if one.age is not None]
        return replace(chosen, age=min(ages, default=None), committed=channel.agreed if ages else None)

    def _present(self, channel: _Witnesses, name: str, newest: float) -> list[tuple[str, float]]:
        """Choose the organisations that count now, each with the time at which it was last heard of."""
        if len(channel.heard) == 1:
            return list(channel.heard.items())
        watched = self._watched or channel.heard
        longest = ABSENT * self._window  # no channel's window is shorter
        if any(newest - heard > longest for heard in channel.heard.values()):
            longest = self._longest_silence(channel, name)
        present = [(one, heard) for one, heard in channel.heard.items() if one in watched and newest - heard <= longest]
        return present or [max(channel.heard.items(), key=lambda one: one[1])]

    def _longest_silence(self, channel: _Witnesses, name: str) -> float:
        """Give the seconds of silence up to which an organisation counts, while another one reports."""
        return ABSENT * max(self._meters[one].window_of(name) for one in channel.heard)
