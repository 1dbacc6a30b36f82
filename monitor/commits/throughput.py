"""Commits -> throughput per channel, by the paper's equation A = (N(tj) - N(ti)) / (tj - ti).

N counts a channel's committed transactions; a block counts once, however many peers report it.

**Which clock.** Time is an argument here. For a replay it is the lines' own time. Live it is the monotonic clock,
which no clock step moves: :func:`~qioi.monitor.logs.component_logs.commit_instant` turns a line's time into it by the
line's age, and accepts that age only within bounds, so that neither a step nor a forged stamp moves a commit to more
than a few seconds before the last look.

**Which interval.** Blocks come in bursts up to BatchTimeout (2 s) apart, so counting what falls between two fixed
instants would flicker by a whole block. ti and tj are therefore instants of commits: ti the last one before the window
opens, tj the last one of all. A silence longer than the longest gap between those commits counts as time in which
nothing was committed; silence of a whole window is throughput zero. Where blocks come at equal intervals longer than
usual, the window covers three of them (:mod:`qioi.monitor.commits.interval`). Before a whole window has been watched,
and for a channel that was never heard of, there is no reading (``None``).

**Which blocks count.** A peer commits a channel's blocks one after the other. The channel's front is the highest block
that was accepted; a block counts if it moves the front, so what lagging peers and peers that catch up report doesn't
count again. A block that does not follow on its peer's last one, and lies beyond the front, waits until the same peer
reports the next one or another peer the same one. When a peer goes on where it was before such a jump, the jump was
forged, and it is taken back. Where a part of a peer's log was passed over, the peer may go on further ahead: the blocks
in between are taken to hold as many transactions as those that were seen.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from itertools import islice, takewhile

from qioi.model import ChannelReading, Commit
from qioi.model.commits import counted_silence
from qioi.model.names import MAX_CHANNELS
from qioi.monitor.commits.interval import BlockInterval

#: Seconds: three of Fabric's default batch timeouts.
DEFAULT_WINDOW = 6.0
#: Seconds after which a peer, whose log or page of metrics is silent, no longer holds up the front of a channel that
#: others have begun anew. It is long, since where nothing is committed all peers are silent: what one catches up with
#: then is old. Only a peer that is listed and dead needs it; one that leaves is forgotten, and one that begins anew
#: says so itself.
PEER_EXPIRY = 86_400.0
#: Blocks in a row after which a jump is no longer taken back.
_SETTLED = 16
#: Commits kept, of all channels together from one period to the next; beyond it a channel's oldest become one.
_MAX_EVENTS = 50_000
#: Bytes of a log in which there is no more than one commit line.
_LINE = 100
#: Events kept however old they are: once a channel's window is known to be longer, they are inside.
_KEPT = 4
#: Blocks whose mean stands in for blocks that were not seen.
_ALIKE = 16
#: Channels that one peer may be the first to name, beside those that are expected: a peer that invents channels leaves
#: room for other peers'.
MAX_OF_A_PEER = 100


@dataclass(slots=True, order=True)
class _Event:
    """A block that counted."""

    time: float
    block: int
    transactions: int


@dataclass(slots=True)
class _Chain:
    """What one peer has reported of one channel."""

    head: int
    seen: float
    #: How many blocks in a row, ``head`` the last.
    run: int = 1
    #: The head before the last jump, while the jump may still turn out to be false.
    stash: int | None = None
    #: A block beyond the front that no report has confirmed yet.
    held: _Event | None = None
    #: Blocks at most that stood in a part of the log that was passed over after ``head``.
    unseen: int = 0

    @property
    def supports(self) -> int:
        """The highest block that this peer vouches for."""
        return self.head if self.run > 1 or self.stash is None else self.stash


@dataclass(slots=True)
class _Channel:
    interval: BlockInterval
    named_by: str
    rank: int  # how many channels that peer had named before
    since: float
    front: int | None = None
    total: int = 0
    chains: dict[str, _Chain] = field(default_factory=dict)
    #: By time. The newest one from before the window is kept: it is the window's ti.
    events: list[_Event] = field(default_factory=list)
    #: Those of them that were reported, by block. A block is added at the front only, so that blocks ascend.
    recent: dict[int, _Event] = field(default_factory=dict)
    #: Those that stand for blocks which nobody was seen to report, by the last block; blocks ascend here, too.
    guesses: dict[int, _Event] = field(default_factory=dict)
    #: Most events since the two were made anew: what is deleted from a dictionary keeps its room.
    most: int = 0

    def drop_oldest(self, count: int) -> int:
        """Forget so many events; give the transactions in them."""
        self.most = max(self.most, len(self.events))
        oldest = self.events[:count]
        for event in oldest:
            self.recent.pop(event.block, None)
            self.guesses.pop(event.block, None)
        del self.events[:count]
        if 4 * len(self.events) < self.most:
            self.recent, self.guesses, self.most = dict(self.recent), dict(self.guesses), len(self.events)
        return sum(event.transactions for event in oldest)


class Throughput:
    """The throughput of every channel that its commits are shown."""

    def __init__(self, window: float = DEFAULT_WINDOW) -> None:
        if not window > 0:
            raise ValueError(f"window must be more than 0 seconds, not {window}")
        self.window = window
        #: Channels that somebody has configured: no peer invents these, so one may name as many of them as it serves.
        self.expected: Set[str] = frozenset()
        self._channels: dict[str, _Channel] = {}
        #: How many of them each peer was the first to name.
        self._named: Counter[str] = Counter()

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that commits were seen of, each peer's first ones first: so none crowds others out."""
        return tuple(sorted(self._channels, key=lambda name: self._channels[name].rank))

    def rank(self, channel: str) -> int | None:
        """How many channels the peer that first named this one had named before; ``None`` where it is not known."""
        known = self._channels.get(channel)
        return known.rank if known else None

    def window_of(self, channel: str) -> float:
        """The seconds that a channel's window covers."""
        known = self._channels.get(channel)
        return known.interval.window if known else self.window

    def is_reported(self, channel: str) -> bool:
        """Whether a peer has reported it that was not forgotten since."""
        known = self._channels.get(channel)
        return known is not None and bool(known.chains)

    def drop(self, channel: str) -> None:
        """Forget a channel: the peer that has named it may name another."""
        dropped = self._channels.pop(channel, None)
        if dropped is not None and self._named[dropped.named_by] > 0:  # it may have been forgotten since
            self._named[dropped.named_by] -= 1

    def transactions(self, channel: str) -> int:
        """How many transactions counted since the beginning: N."""
        known = self._channels.get(channel)
        return known.total if known else 0

    def observe(self, commit: Commit, instant: float) -> bool:
        """Take one peer's report of one block; whether it moved the channel's front at once."""
        channel = self._channels.get(commit.channel) or self._begin(commit, instant)
        if channel is None:
            return False
        if self._is_nothing_new(channel, commit, instant):
            return False
        event = _Event(instant, commit.block, commit.transactions)
        before = channel.front
        self._accept(channel, commit.peer, event)
        if channel.front == before:  # another peer's report of a block that counted, as most are
            return False
        self._prune(channel, instant)
        return True

    def _begin(self, commit: Commit, instant: float) -> _Channel | None:
        """Begin a channel; ``None`` where its peer has named too many, or all peers have."""
        named = self._named[commit.peer]
        if len(self._channels) >= MAX_CHANNELS or (named >= MAX_OF_A_PEER and commit.channel not in self.expected):
            return None
        self._named[commit.peer] += 1
        channel = _Channel(BlockInterval(self.window), commit.peer, named, instant)
        self._channels[commit.channel] = channel
        return channel

    def forget(self, peer: str) -> None:
        """Drop what a peer reported that is no longer watched: it no longer holds up any front."""
        for channel in self._channels.values():
            channel.chains.pop(peer, None)
        self._named.pop(peer, None)

    def skipped(self, peer: str, size: int) -> None:
        """Take in that a part of a peer's log was passed over, so many bytes."""
        for channel in self._channels.values():
            chain = channel.chains.get(peer)
            if chain is not None:
                chain.unseen += size // _LINE

    def reading(self, name: str, now: float) -> ChannelReading:
        """Say what the window that ends now shows."""
        channel = self._channels.get(name)
        if channel is None or not channel.events:
            return ChannelReading(name, None, None, channel.front if channel else None)
        self._prune(channel, now)
        age = max(0.0, now - channel.events[-1].time)
        window = channel.interval.window
        tps = _rate(channel.events, now, window) if now - channel.since >= window else None
        return ChannelReading(name, tps, age, channel.front, channel.total, interval=channel.interval.seconds)

    def prune(self, name: str, now: float) -> None:
        """Forget what lies before the window that ends now, also of a channel that nobody asks for."""
        channel = self._channels[name]
        events = channel.events
        if len(events) > _KEPT and events[1].time <= now - channel.interval.window:  # else there is nothing to forget
            self._prune(channel, now)

    def bound(self) -> None:
        """Keep no more events than one log may have kept: the channels with the most give theirs up."""
        left = _MAX_EVENTS
        if sum(len(channel.events) for channel in self._channels.values()) <= left:
            return
        channels = sorted(self._channels.values(), key=lambda one: len(one.events))
        for number, channel in enumerate(channels):
            _keep(channel, max(1, left // (len(channels) - number)))
            left -= len(channel.events)

    # The front

    def _is_nothing_new(self, channel: _Channel, commit: Commit, instant: float) -> bool:
        """Take in, the short way, what most reports are: a peer goes on, later, with a block that counted already.

        So it is only where the channel's front stands firm; the long way comes to the same.
        """
        chain, counted = channel.chains.get(commit.peer), channel.recent.get(commit.block)
        if chain is None or counted is None or commit.block != chain.head + 1 or chain.stash is not None:
            return False
        if chain.unseen:
            return False
        if counted.transactions > commit.transactions or counted.time > instant or channel.front is None:
            return False
        first = next(iter(channel.chains.values()))
        if first.supports < channel.front or instant - first.seen > PEER_EXPIRY:
            return False
        chain.head, chain.run = commit.block, chain.run + 1
        chain.seen = max(chain.seen, instant)
        return True

    def _accept(self, channel: _Channel, peer: str, event: _Event) -> None:
        chain = channel.chains.get(peer)
        unseen = False
        if chain is None:
            chain = channel.chains[peer] = _Chain(event.block, event.time)
            follows = False
        elif event.block == chain.head:
            self._amend(channel, event)
            return
        else:
            unseen = chain.head + 1 < event.block <= chain.head + 1 + chain.unseen
            follows = _advance(chain, event)
        if channel.front is None or event.block == channel.front + 1:
            self._count(channel, event)
        elif event.block > channel.front:
            self._beyond(channel, chain, event, follows, unseen)
        else:
            self._amend(channel, event)
            if follows:
                self._lower_front(channel, event)

    def _beyond(self, channel: _Channel, chain: _Chain, event: _Event, follows: bool, unseen: bool) -> None:
        if follows:
            if chain.held is not None and channel.front is not None and chain.held.block > channel.front:
                self._count(channel, chain.held)
            chain.held = None
            if unseen:
                self._count_unseen(channel, event)
            self._count(channel, event)
            return
        witnesses = [other for other in channel.chains.values() if other is not chain]
        if any(other.head == event.block for other in witnesses):
            self._count(channel, event)
        else:
            chain.held = event

    def _lower_front(self, channel: _Channel, event: _Event) -> None:
        """Move the front back once no peer vouches for it: the network began anew, or a jump was false."""
        if channel.front is None:
            return
        supported = -1
        for chain in channel.chains.values():
            if event.time - chain.seen <= PEER_EXPIRY:
                supported = max(supported, chain.supports)
                if supported >= channel.front:  # the usual case, for most reports of every block
                    return
        self._take_back(channel, supported)
        channel.front = supported
        if event.block == supported and event.block not in channel.recent:
            self._count(channel, event)
        if not channel.events:
            channel.since = event.time

    def _take_back(self, channel: _Channel, supported: int) -> None:
        """Drop the events beyond a block. No others are looked at: a forged log has this done all the time."""
        for known in (channel.guesses, channel.recent):
            for false in list(takewhile(lambda one: one.block > supported, reversed(known.values()))):
                del channel.events[bisect_left(channel.events, false)]
                del known[false.block]
                channel.total -= false.transactions

    def _count(self, channel: _Channel, event: _Event) -> None:
        channel.front = event.block
        channel.total += event.transactions
        channel.recent[event.block] = event
        insort(channel.events, event)
        channel.interval.step(event.time)

    def _count_unseen(self, channel: _Channel, event: _Event) -> None:
        """Count the blocks between the front and a block, which stood in a part of a log that was passed over."""
        assert channel.front is not None
        alike = islice(reversed(channel.recent.values()), _ALIKE)
        seen = [event.transactions, *(one.transactions for one in alike)]
        missing = _Event(event.time, event.block - 1, round((event.block - 1 - channel.front) * sum(seen) / len(seen)))
        channel.total += missing.transactions
        channel.guesses[missing.block] = missing
        insort(channel.events, missing)

    def _amend(self, channel: _Channel, event: _Event) -> None:
        """Join another report of a block that counted: the earliest instant, the smallest number of transactions."""
        counted = channel.recent.get(event.block)
        if counted is None:
            return
        if event.transactions < counted.transactions:
            channel.total -= counted.transactions - event.transactions
            counted.transactions = event.transactions
        if event.time < counted.time:
            self._move(channel, counted, event.time)
            channel.since = min(channel.since, event.time)

    def _move(self, channel: _Channel, counted: _Event, time: float) -> None:
        del channel.events[bisect_left(channel.events, counted)]
        counted.time = time
        insort(channel.events, counted)

    def _prune(self, channel: _Channel, now: float) -> None:
        keep = bisect_right(channel.events, now - channel.interval.window, key=_time) - 1
        keep = min(keep, len(channel.events) - _KEPT)
        if keep > 0:
            channel.drop_oldest(keep)
        _keep(channel, _MAX_EVENTS)


def _keep(channel: _Channel, most: int) -> None:
    """Have a channel's oldest events become one, where there are more."""
    if len(channel.events) > most:
        merged = channel.drop_oldest(len(channel.events) - most)
        channel.events[0].transactions += merged


def _rate(events: list[_Event], now: float, window: float) -> float:
    """Compute the equation for the window that ends now."""
    first = bisect_right(events, now - window, key=_time)
    inside = events[first:]
    if not inside:
        return 0.0
    if first and inside[0].time - events[first - 1].time <= window:
        start = events[first - 1].time
    elif inside[-1].time - inside[0].time >= window / 3:
        # The ledger was silent before: its own first commit opens the interval, or idle time would count.
        start = inside.pop(0).time
    else:
        return sum(event.transactions for event in inside) / window
    times = [start, *(event.time for event in inside)]
    length = times[-1] - start + counted_silence(times, now)
    return sum(event.transactions for event in inside) / length


def _advance(chain: _Chain, event: _Event) -> bool:
    """Move a peer's chain; whether the block follows on what the peer had reported."""
    chain.seen = max(chain.seen, event.time)
    unseen, chain.unseen = chain.unseen, 0
    if chain.head < event.block <= chain.head + 1 + unseen:
        chain.run += 1
        if chain.run >= _SETTLED:
            chain.stash = None
    elif chain.stash is not None and event.block == chain.stash + 1:
        chain.run, chain.stash, chain.held = 2, None, None
    else:
        chain.run, chain.stash, chain.held = 1, chain.supports, None
        chain.head = event.block
        return False
    chain.head = event.block
    return True


def _time(event: _Event) -> float:
    return event.time
