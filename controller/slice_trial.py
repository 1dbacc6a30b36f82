"""``slices: auto``: whether slices help here, found by alternating epochs with and without them.

Measured on real processes, slices gained a chain of short wakeups a lot and cost a Go process that runs longer at a
stretch. So they are kept only on evidence: in pairs of epochs, in alternating order so that a trend favours neither,
the share of runnable time that the components spend waiting is compared. Kept are slices whose mean gain is above what
chance explains (two standard errors) and worth it; otherwise they are off, and tried again much later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

#: Seconds of one epoch, and at its beginning those that don't count: the change takes effect.
EPOCH = 8.0
SETTLE = 1.5
#: Pairs before a verdict, and the most before the absence of evidence is one.
PAIRS = 5
MOST_PAIRS = 12
#: Least mean gain, as a part of the waiting without slices.
GAIN = 0.05
#: Seconds for which a verdict holds; for the absence of a gain doubled each time, up to the longest.
HOLDS = 600.0
LONGEST = 7200.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial with all it remembers. ``on`` says whether slices are to be in force now."""

    on: bool = False
    text: str = "not tried yet"
    gains: tuple[float, ...] = ()
    first: float | None = None  # the waiting in the first epoch of the pair
    begun: float | None = None  # when the epoch began; None: none is running
    run: float = 0.0
    wait: float = 0.0
    verdict: bool | None = None
    until: float = -math.inf
    holds: float = HOLDS

    def step(self, now: float, active: bool, run: float, wait: float) -> Trial:
        """Take one period in: run and waiting time in s of all components; ``active`` while interference lasts."""
        if not active:  # an epoch that is interrupted says nothing, and neither does its pair
            return replace(self, on=False, begun=None, first=None, run=0.0, wait=0.0)
        if self.verdict is not None and now < self.until:
            return replace(self, on=self.verdict)
        if self.verdict is not None:
            return replace(
                self, verdict=None, gains=(), on=self._first_arm(0), begun=now, first=None, run=0.0, wait=0.0
            )
        if self.begun is None:
            return replace(self, on=self._first_arm(len(self.gains)), begun=now, run=0.0, wait=0.0)
        after = self
        if now - self.begun > SETTLE:
            after = replace(self, run=self.run + run, wait=self.wait + wait)
        return after if now - self.begun < EPOCH else after._end(now)

    @staticmethod
    def _first_arm(pair: int) -> bool:
        """Say which arm a pair begins with: off first in even ones, on first in odd ones."""
        return pair % 2 == 1

    def _end(self, now: float) -> Trial:
        """End an epoch, and with every second one a pair."""
        total = self.run + self.wait
        waiting = self.wait / total if total > 0 else 0.0
        fresh = replace(self, begun=now, run=0.0, wait=0.0)
        if self.first is None:
            return replace(fresh, first=waiting, on=not self.on)
        off, on = (self.first, waiting) if self.on else (waiting, self.first)
        gains = (*self.gains, (off - on) / off if off > 0 else 0.0)
        return replace(fresh, first=None, gains=gains, on=self._first_arm(len(gains)))._judge(now)

    def _judge(self, now: float) -> Trial:
        """Come to a verdict if the pairs allow one."""
        count = len(self.gains)
        mean = sum(self.gains) / count
        text = f"{count} pairs of epochs: waiting {mean:+.0%} less with slices"
        if count < PAIRS:
            return replace(self, text=f"on trial: {text}")
        error = math.sqrt(sum((gain - mean) ** 2 for gain in self.gains) / (count - 1) / count)
        if mean > GAIN and mean > 2 * error:
            return replace(
                self, verdict=True, on=True, until=now + HOLDS, holds=HOLDS, begun=None, text=f"kept: {text}"
            )
        if mean + 2 * error < GAIN or count >= MOST_PAIRS:
            holds = min(LONGEST, 2 * self.holds)
            return replace(
                self, verdict=False, on=False, until=now + self.holds, holds=holds, begun=None, text=f"not kept: {text}"
            )
        return replace(self, text=f"on trial: {text}")
