"""How far apart a channel's blocks come, where they come at equal intervals: a BatchTimeout longer than the usual 2 s.

A window of 6 s sees one block or none of a channel whose orderer cuts one every 10 s. So the window follows: it covers
three intervals, up to a minute. Blocks that are far apart because hardly anything is sent come at unequal intervals.
"""

from __future__ import annotations

from collections import deque

#: Intervals that must agree, and the ratio of the longest to the shortest of them up to which they do.
AGREE, ALIKE = 3, 1.25
#: Intervals that a window covers, and its longest, in seconds.
COVERED, LONGEST = 3, 60.0
#: How many times the interval a silence is that ends it, and the part of it that two gaps in a row must fall below.
BROKEN, SHORTER = 3.0, 0.5


class BlockInterval:
    """The interval of one channel. ``window`` is the one that is long enough for usual channels, in seconds."""

    __slots__ = ("_gaps", "_last", "_usual", "seconds")

    def __init__(self, window: float) -> None:
        #: Seconds between two blocks; 0 while they are not equally far apart, or no farther than usual.
        self.seconds = 0.0
        self._usual = window
        self._last: float | None = None
        self._gaps: deque[float] = deque(maxlen=AGREE)

    @property
    def window(self) -> float:
        """The window that shows this channel's throughput, in seconds."""
        return max(self._usual, min(LONGEST, COVERED * self.seconds))

    def step(self, time: float) -> None:
        """Take in a block that came at that time; one that is older than the last is left out."""
        last = self._last
        if last is not None and time <= last:
            return
        self._last = time
        if last is None:
            return
        self._gaps.append(time - last)
        shortest, longest = min(self._gaps), max(self._gaps)
        if len(self._gaps) == AGREE and shortest > self._usual / 2 and longest <= ALIKE * shortest:
            self.seconds = sum(self._gaps) / AGREE
        elif longest > BROKEN * self.seconds or max(list(self._gaps)[-2:]) < SHORTER * self.seconds:
            self.seconds = 0.0
