"""Pages of several peers -> throughput per channel; a block counts once, however many peers have it.

The blocks of a channel are those by which its *front* (the greatest height that any peer shows) has moved, so a
lagging peer and one that catches up add nothing. How many valid transactions a block holds is asked of the peer
that is at the front: its counter's difference over its height's. A counter that has fallen began anew.

There is no rate while no peer that is at the front shows a page, since the others may catch up with old blocks, and for
a window after it has turned out to be further ahead than any peer had shown.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from qioi.model import ChannelReading
from qioi.model.commits import counted_silence
from qioi.model.names import MAX_CHANNELS
from qioi.monitor.commits.interval import BlockInterval
from qioi.monitor.metrics.exposition import Page

#: Seconds that a rate covers, as for logs: three of Fabric's default batch timeouts.
WINDOW = 6.0
#: Seconds after which a page says nothing of what is committed now; after that the log counts.
FRESH = 4.0


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
    #: When a peer has last shown that height.
    shown: float = 0.0
    #: Since when it is known where the front is; a window that opens before has no rate.
    since: float = -math.inf

    def show(self, peer: str, look: _Look) -> None:
        """Take in a peer's newest look."""
        looks = self.looks.setdefault(peer, deque())
        if self.front is None or look.height >= self.front:
            self._show_front(looks, look)
        looks.append(look)
        while len(looks) > 2 and looks[1].time <= look.time - self.interval.window:
            looks.popleft()

    def _show_front(self, looks: deque[_Look], look: _Look) -> None:
        """Have a look be the front. Blocks that came while nobody was seen to have them are none of now."""
        before, unseen = self.front, look.time - self.shown
        # Looks come peer by peer: another one's at the same height may be older than the front's.
        self.shown = max(self.shown, look.time) if look.height == before else look.time
        self.front = look.height
        if before is None:
            return
        if unseen > self.interval.window or (not looks and look.height > before + 1):
            self.since = look.time
        if look.height == before:
            return
        if looks:  # of the peer's blocks, those beyond the front
            grown = look.transactions - looks[-1].transactions
            self.total += grown * (look.height - before) / (look.height - looks[-1].height)
        self.moved = look.time
        self.interval.step(look.time)

    def begin_anew(self, peer: str, height: int, now: float) -> None:
        """Forget the looks of a peer that shows no transactions yet: it may be ahead of all that show some."""
        if peer not in self.looks:  # an orderer, which is ahead of all peers where these starve
            return
        self.drop(peer)
        self.looks[peer] = deque()
        if self.front is not None and height > self.front:
            self.since = now

    def drop(self, peer: str) -> None:
        """Forget what a peer has shown; only where it was at the front the others are asked where that is now."""
        looks = self.looks.pop(peer, None)
        if not looks or looks[-1].height != self.front:
            return
        newest = max((its[-1] for its in self.looks.values() if its), key=_by_height, default=None)
        self.front, self.shown = (newest.height, newest.time) if newest else (None, 0.0)


def _by_height(look: _Look) -> tuple[int, float]:
    return look.height, look.time


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
                if name in self._channels:
                    self._channels[name].begin_anew(peer, height, now)
                continue
            channel = self._channel(name)
            if channel is None:
                continue
            looks = channel.looks.get(peer)
            if looks and (height < looks[-1].height or page.transactions[name] < looks[-1].transactions):
                channel.drop(peer)  # the process, or the ledger, began anew
            channel.show(peer, _Look(now, height, page.transactions[name]))

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
        """Say what is known of a channel; without a whole window in which its front is known there is no throughput."""
        channel = self._channels.get(name)
        top = channel.front if channel else None
        if channel is None or top is None:
            return ChannelReading(name, None, None)
        age = None if channel.moved is None else max(0.0, now - channel.moved)
        return ChannelReading(
            name, _throughput(channel, top, now), age, top, round(channel.total), "metrics", channel.interval.seconds
        )


def _throughput(channel: _Channel, top: int, now: float) -> float | None:
    opened = now - channel.interval.window
    if opened < channel.since or now - channel.shown > FRESH:
        return None
    tps = rate_by_moves(channel, now) if channel.interval.seconds else None
    return rate(channel, top, opened) if tps is None else tps


def rate_by_moves(channel: _Channel, now: float) -> float | None:
    """Transactions per second between looks at which the newest peer's height had grown; ``None`` with fewer than two.

    Where blocks are further apart than looks, a window has two of them now and three then.
    """
    looks = max((looks for looks in channel.looks.values() if looks), key=lambda looks: (looks[-1].height, len(looks)))
    moves = [later for earlier, later in pairwise(looks) if later.height > earlier.height]
    if len(moves) < 2:
        return None
    length = moves[-1].time - moves[0].time + counted_silence([one.time for one in moves], now)
    return (moves[-1].transactions - moves[0].transactions) / length


def rate(channel: _Channel, top: int, opened: float) -> float | None:
    """Blocks of the front per second, times valid transactions per block."""
    starts = [looks[0] for looks in channel.looks.values() if looks and looks[0].time <= opened]
    if not starts:
        return None
    start = max(starts, key=_by_height)
    blocks, elapsed = top - start.height, channel.shown - start.time
    grown = [looks for looks in channel.looks.values() if looks and looks[-1].height > looks[0].height]
    if blocks <= 0 or elapsed <= 0 or not grown:
        return 0.0
    teller = max(grown, key=lambda looks: (looks[-1].height, len(looks)))  # a peer that is back has shown a page alone
    filled = teller[-1].transactions - teller[0].transactions
    return blocks / elapsed * filled / (teller[-1].height - teller[0].height)
