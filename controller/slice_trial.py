"""``slices: auto``: whether slices help here, found by short phases with and without them, compared in pairs.

Measured on real processes, slices gained a chain of short wakeups a lot and cost a Go process that runs longer at a
stretch. So they are kept only on evidence, and the trial itself must not harm:

- What is compared is the time that the components' threads are runnable, running or waiting, for each transaction
  committed. Waiting alone would flatter slices: they bring more switches, which are paid for in running.
- A trial begins when interference has lasted and no share has moved for a while, and a pair in which a share moves, or
  the interference ends, says nothing. Which phase of a pair comes first follows the Thue-Morse sequence, so that
  neither a trend nor a rhythm of the load favours one.
- Kept: a bet against "no gain worth it" that is won. From a stake of 1, each pair's gain (the logarithm of the ratio,
  within :data:`CLIP`) multiplies what there is, and slices are kept at :data:`ODDS`. If there is no gain, what there is
  grows on the average not at all, so noise gets that far in one of so many trials at the most, however often one looks
  (Ville's inequality; Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2023).
- Not kept: as soon as two pairs together show a loss, four no gain, or all of them no evidence. A phase that is much
  worse than the one without ends at once. So slices that harm are in force for two phases, 8 s; in no trial for more
  than :data:`MOST_PAIRS` phases, 64 s; and the next trial comes after 10 minutes, then 20, at last every two hours.
- Kept slices are left out for one phase a minute, and given up when the last of these pairs show no gain any more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

#: Seconds of one phase, and at its beginning those that don't count: the change takes effect.
PHASE = 4.0
SETTLE = 0.9
#: Seconds of steady interference before a trial begins: shares are raised, and what piled up is worked off.
STEADY = 15.0
#: Least gain that is worth it, and the most that a pair counts for: logarithms of ratios.
GAIN = 0.05
CLIP = 0.5
#: Part of what there is that each pair is a bet of, and how many times the stake is evidence.
BET = 0.8
ODDS = 20.0
#: Pairs of a trial after which a loss, and the lack of a gain, ends it; and the most.
LOSING_PAIRS, IDLE_PAIRS, MOST_PAIRS = 2, 4, 16
#: A phase with slices that is so many times worse than the last one without ends at once.
HARM = 2.0
#: Seconds between two pairs that watch over kept slices, and how many of these are remembered.
WATCH = 60.0
WATCHED = 3
#: Seconds for which slices are not tried again; doubled each time, up to the longest.
HOLDS = 600.0
LONGEST = 7200.0


@dataclass(frozen=True, slots=True)
class Look:
    """What one period shows: seconds that all components' threads were runnable in it, and transactions in all so far.

    ``active``: foreign work keeps the host full while commits are made. ``moved``: somebody's share was changed.
    ``committed`` is ``None`` where nobody counts: the load is then taken to be even.
    """

    now: float
    active: bool
    runnable: float
    committed: int | None = None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase that is under way: what has counted since ``since``, the end of its first periods."""

    begun: float
    since: float | None = None
    at: float = 0.0
    runnable: float = 0.0
    base: int | None = None
    committed: int | None = None

    def add(self, look: Look) -> Phase:
        """Take in a period; those at the beginning only set the mark."""
        if self.since is None or look.now - self.begun <= SETTLE:
            return replace(self, since=look.now, at=look.now, base=look.committed, committed=look.committed)
        return replace(self, at=look.now, runnable=self.runnable + look.runnable, committed=look.committed)

    @property
    def cost(self) -> float | None:
        """Runnable seconds per transaction, infinite without any; ``None`` before a period has counted."""
        if self.since is None or self.at <= self.since:
            return None
        if self.base is None or self.committed is None:
            return self.runnable / (self.at - self.since)
        done = self.committed - self.base
        return self.runnable / done if done > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial with all it remembers. ``on`` says whether slices are to be in force now."""

    on: bool = False
    text: str = "not tried yet"
    gains: tuple[float, ...] = ()
    pairs: int = 0  # since the beginning of all: which phase comes first
    first: float | None = None  # the cost of the first phase of the pair
    without: float | None = None  # the cost of the last phase without slices
    phase: Phase | None = None
    steady_since: float | None = None
    verdict: bool | None = None
    until: float = -math.inf
    holds: float = HOLDS

    def step(self, look: Look) -> Trial:
        """Take one period in."""
        if not look.active:
            return replace(self._broken_off(), on=False, steady_since=None)
        if self.steady_since is None or look.moved:
            return replace(self._broken_off(), steady_since=look.now)
        if self.verdict is not None and look.now < self.until:
            return replace(self, on=self.verdict)
        if look.now - self.steady_since < STEADY:
            return self
        if self.verdict is False:
            return replace(self, verdict=None, gains=()).step(look)
        if self.phase is None:
            return replace(self, phase=Phase(look.now), first=None, on=self._begins_with())
        phase = self.phase.add(look)
        after, cost = replace(self, phase=phase), phase.cost
        if cost is None:
            return after
        if self.on and self.without is not None and cost > HARM * self.without:
            return after._pair(look.now, self.without, cost)
        return after._end(look.now, cost) if look.now - phase.begun >= PHASE else after

    def _broken_off(self) -> Trial:
        """Drop the pair that is under way."""
        return replace(self, phase=None, first=None, without=None, on=self.verdict is True)

    def _begins_with(self) -> bool:
        """Say which phase a pair begins with, by the Thue-Morse sequence; watching, one without."""
        return self.verdict is None and self.pairs.bit_count() % 2 == 1

    def _end(self, now: float, cost: float) -> Trial:
        """End a phase, and with every second one a pair."""
        after = self if self.on else replace(self, without=cost)
        if self.first is None:
            return replace(after, first=cost, on=not self.on, phase=Phase(now))
        off, on = (self.first, cost) if self.on else (cost, self.first)
        return after._pair(now, off, on)

    def _pair(self, now: float, off: float, on: float) -> Trial:
        """Take a pair of costs in, and go on, or come to a verdict."""
        if not 0 < off < math.inf or on <= 0:  # nothing was done without slices: nothing to compare with
            return self._broken_off()
        gains = (*self.gains, max(-CLIP, min(CLIP, math.log(off) - math.log(on))))
        after = replace(self, gains=gains, pairs=self.pairs + 1, first=None, phase=Phase(now))
        after = replace(after, on=after._begins_with())
        return after._watch(now) if self.verdict else after._judge(now)

    def _judge(self, now: float) -> Trial:
        """Come to a verdict if the pairs allow one."""
        count, mean = len(self.gains), sum(self.gains) / len(self.gains)
        text = f"{count} pairs of phases: {1 - math.exp(-mean):+.0%} less runnable time per transaction with slices"
        if winnings(self.gains) >= ODDS:
            kept = replace(self, verdict=True, on=True, phase=None, gains=self.gains[-WATCHED:])
            return replace(kept, until=now + WATCH, holds=HOLDS, text=f"kept: {text}")
        losing = count >= LOSING_PAIRS and mean < -GAIN
        if losing or (count >= IDLE_PAIRS and mean < GAIN) or count >= MOST_PAIRS:
            return self._reject(now, f"not kept: {text}")
        return replace(self, text=f"on trial: {text}")

    def _watch(self, now: float) -> Trial:
        """Judge kept slices by the last pairs."""
        gains = self.gains[-WATCHED:]
        mean = sum(gains) / len(gains)
        text = f"{len(gains)} last pairs of phases: {1 - math.exp(-mean):+.0%} less runnable time per transaction"
        if mean < 0:
            return self._reject(now, f"not kept any more: {text}")
        return replace(self, gains=gains, on=True, phase=None, until=now + WATCH, text=f"kept: {text}")

    def _reject(self, now: float, text: str) -> Trial:
        holds = min(LONGEST, 2 * self.holds)
        return replace(self._broken_off(), verdict=False, on=False, until=now + self.holds, holds=holds, text=text)


def winnings(gains: tuple[float, ...]) -> float:
    """Give what a stake of 1 has become by betting on each gain to be worth it."""
    return math.prod(1 + BET * (gain - GAIN) / (CLIP + GAIN) for gain in gains)
