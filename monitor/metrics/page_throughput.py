"""Pages of several peers -> throughput per channel; a block counts once, however many peers have it.

The blocks of a channel are those by which its *front* (the greatest height that any peer shows) has moved, so a
lagging peer and one that catches up add nothing. How many valid transactions a block holds is asked of the peer
that is at the front: its counter's difference over its height's. A counter that has fallen began anew.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from qioi.model import ChannelReading
from qioi.model.names import MAX_CHANNELS
from qioi.monitor.commits.interval import BlockInterval
from qioi.monitor.metrics.exposition import Page

#: Seconds that a rate covers, as for logs: three of Fabric's default batch timeouts.
WINDOW = 6.0


@dataclass(frozen=True, slots=True)
class _Look:
    time: float
    height: int
    transactions: float


@dataclass(slots=True)
class _Channel:
    interval: BlockInterval
    looks: dict[str, deque[_Look]] = field(default_factory=dict)
    moved: float | None = None
    total: float = 0.0
    #: The front: the greatest height that any peer shows. It is kept, since a page may name a thousand channels.
    front: int | None = None

    def show(self, peer: str, look: _Look) -> None:
        """Take in a peer's newest look."""
        self.looks[peer].append(look)
        self.front = look.height if self.front is None else max(self.front, look.height)

    def drop(self, peer: str) -> None:
        """Forget what a peer has shown; only where it was at the front the others are asked where that is now."""
        looks = self.looks.pop(peer, None)
        if looks and looks[-1].height == self.front:
            self.front = max((its[-1].height for its in self.looks.values() if its), default=None)


class PageThroughput:
    """What the pages of all peers say together. Times are monotonic, in seconds."""

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._channels: dict[str, _Channel] = {}

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that any peer has shown; last come those that none shows any more."""
        return tuple(sorted(self._channels, key=lambda name: not any(self._channels[name].looks.values())))

    def heard(self, since: float) -> tuple[str, ...]:
        """Name the channels whose front has moved since then."""
        return tuple(name for name, one in self._channels.items() if one.moved is not None and one.moved >= since)

    def observe(self, peer: str, page: Page, now: float) -> None:
        """Take in what one peer shows. An orderer's page has heights only, and shows no commits."""
        for name, height in page.heights.items():
            if name not in page.transactions:
                if name in self._channels:  # a peer that began anew, and has committed nothing since
                    self._channels[name].drop(peer)
                continue
            channel = self._channel(name)
            if channel is None:
                continue
            looks = channel.looks.get(peer)
            if looks and (height < looks[-1].height or page.transactions[name] < looks[-1].transactions):
                channel.drop(peer)  # the process, or the ledger, began anew
            looks = channel.looks.setdefault(peer, deque())
            before = channel.front
            if looks and before is not None and height > before:  # of the peer's blocks, those beyond the front
                grown = page.transactions[name] - looks[-1].transactions
                channel.total += grown * (height - before) / (height - looks[-1].height)
            channel.show(peer, _Look(now, height, page.transactions[name]))
            while len(looks) > 2 and looks[1].time <= now - channel.interval.window:
                looks.popleft()
            if before is not None and height > before:
                channel.moved = now
                channel.interval.step(now)

    def _channel(self, name: str) -> _Channel | None:
        """Find or begin a channel; ``None`` where there are too many: a page may make names up."""
        if name not in self._channels:
            if len(self._channels) >= MAX_CHANNELS:  # channels that no peer shows make room
                self._channels = {known: one for known, one in self._channels.items() if any(one.looks.values())}
            if len(self._channels) >= MAX_CHANNELS:
                return None
            self._channels[name] = _Channel(BlockInterval(self._window))
        return self._channels[name]

    def forget(self, peer: str) -> None:
        """Drop what a peer has shown, once it does not answer or is not watched."""
        for channel in self._channels.values():
            channel.drop(peer)

    def reading(self, name: str, now: float) -> ChannelReading:
        """Say what is known of a channel; without a whole window there is no throughput."""
        channel = self._channels.get(name)
        top = channel.front if channel else None
        if channel is None or top is None:
            return ChannelReading(name, None, None)
        age = None if channel.moved is None else max(0.0, now - channel.moved)
        seconds = channel.interval.seconds
        tps = rate_by_moves(channel, now) if seconds else None
        if tps is None:
            tps = rate(channel, top, now - channel.interval.window)
        return ChannelReading(name, tps, age, top, round(channel.total), "metrics", seconds)


def rate_by_moves(channel: _Channel, now: float) -> float | None:
    """Transactions per second between looks at which the newest peer's height had grown; ``None`` with fewer than two.

    Where blocks are further apart than looks, a window has two of them now and three then.
    """
    looks = max((looks for looks in channel.looks.values() if looks), key=lambda looks: (looks[-1].height, len(looks)))
    moves = [later for earlier, later in pairwise(looks) if later.height > earlier.height]
    if len(moves) < 2:
        return None
    longest_gap = max(later.time - earlier.time for earlier, later in pairwise(moves))
    silence = max(0.0, now - moves[-1].time - longest_gap)
    return (moves[-1].transactions - moves[0].transactions) / (moves[-1].time - moves[0].time + silence)


def rate(channel: _Channel, top: int, opened: float) -> float | None:
    """Blocks of the front per second, times valid transactions per block."""
    starts = [looks[0] for looks in channel.looks.values() if looks and looks[0].time <= opened]
    if not starts:
        return None
    start = max(starts, key=lambda look: look.height)
    newest = max((looks for looks in channel.looks.values() if looks), key=lambda looks: (looks[-1].height, len(looks)))
    blocks, elapsed = top - start.height, newest[-1].time - start.time
    grown = [looks for looks in channel.looks.values() if looks and looks[-1].height > looks[0].height]
    if blocks <= 0 or elapsed <= 0 or not grown:
        return 0.0
    teller = max(grown, key=lambda looks: (looks[-1].height, len(looks)))  # a peer that is back has shown a page alone
    filled = teller[-1].transactions - teller[0].transactions
    return blocks / elapsed * filled / (teller[-1].height - teller[0].height)
