"""``slices: auto``: whether slices help here, found by short phases with and without them, compared in pairs.

Measured on real processes, slices gained a chain of short wakeups a lot and cost a Go process that runs longer at a
stretch. So they are kept only on evidence, and the trial itself must not harm:

- What is compared is the time that the components' threads are runnable, running or waiting, for each transaction
  committed. Waiting alone would flatter slices: they bring more switches, which are paid for in running. A phase counts
  from one commit to another, so that the gaps between blocks are no difference.
- A trial begins only where shares alone don't do: interference has lasted, no share has moved for a while, and for all
  of it a channel was short of what it is owed for want of the CPU. Where shares protect, ``auto`` is the same as off.
- A pair in which a share moves, a component comes, goes or can't be looked at, or the interference ends, says nothing.
  Nor does one in which what is counted changes, or nothing is committed without slices; such a pair is void. Which
  phase of a pair comes first follows the Thue-Morse sequence, so that no trend of the load favours one, and hardly a
  rhythm; but none begins with slices before there is a phase without, to tell harm by.
- Kept: a bet against "no gain worth it" that is won. From a stake of 1, each pair's gain (the logarithm of the ratio,
  within :data:`CLIP`) multiplies what there is, and slices are kept at :data:`ODDS`. If there is no gain, what there is
  grows on the average not at all, so noise gets that far in one of so many trials at the most, however often one looks
  (Ville's inequality; Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2023). Without
  noise a gain of 18 % and more is found in 7 pairs, one of 10 % in 14, one of 8.5 % in 16; a smaller one never is.
- Not kept: as soon as the first pair shows the greatest loss that counts, two together a loss, four no gain, or all of
  them, void ones too, no evidence. A phase with slices ends at once in a silence much longer than any without, and
  when a second of it costs so much more than the last phase without that it counts as the greatest loss. A phase is
  :data:`PHASE` long in whole periods, and goes on to the next commit. So with blocks and periods of up to a second,
  slices that cost a quarter more are in force for 2 to 3 s, and those whose loss shows in every pair (above 3 %, and
  above the noise) for 8 s; in no trial for more than :data:`IN_FORCE` seconds and one period. The next trial comes
  after 10 minutes, then 20, at last every two hours.
- Kept slices are left out for one phase a minute, and given up when the last of these pairs show no gain any more, or
  are all void; after a pair with a loss the next one follows at once. They were kept in one interference: in the next
  one a trial's conditions and one pair come before they are in force again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

#: Seconds of one phase, and at its beginning those that don't count: the change takes effect.
PHASE = 4.0
SETTLE = 0.9
#: Seconds without a commit that end any phase; shorter than the silence in which a ledger counts as idle.
SILENT = 5.0
#: A phase with slices ends in a silence so many times as long as the longest of the last one without, and of so many
#: seconds at the least: three usual gaps between blocks are no harm, a ledger that stands still is.
HARM = 2.0
PATIENCE = 2.0
#: Seconds of a phase with slices that are enough to see that they cost as much more as counts at the most.
ENOUGH = 0.9
#: Seconds of steady interference before a trial begins: shares are raised, and what piled up is worked off.
STEADY = 15.0
#: Least gain that is worth it, and the most that a pair counts for: logarithms of ratios.
GAIN = 0.03
CLIP = 0.2
#: Part of what there is that each pair is a bet of, and how many times the stake is evidence.
BET = 0.8
ODDS = 20.0
#: Pairs of a trial after which a loss, and the lack of a gain, ends it; and the most.
LOSING_PAIRS, IDLE_PAIRS, MOST_PAIRS = 2, 4, 16
#: Seconds that slices are in force in one trial at the most: all its pairs, or fewer where blocks are far apart.
IN_FORCE = 80.0
#: Seconds between two pairs that watch over kept slices, and how many of these are remembered.
WATCH = 60.0
WATCHED = 3
#: What is said where there has been no reason for a trial, and at its beginning.
NOT_NEEDED = "not tried: no channel is known to be short of what it is owed for want of the CPU"
BEGUN = "on trial: no pair of phases yet"
#: Seconds for which slices are not tried again; doubled each time, up to the longest.
HOLDS = 600.0
LONGEST = 7200.0


@dataclass(frozen=True, slots=True)
class Look:
    """What one period shows: seconds that all components' threads were runnable in it, and transactions in all so far.

    ``active``: foreign work keeps the host full while commits are made. ``moved``: somebody's share was changed.
    ``lacking``: shares alone don't do, a channel is short of what it is owed for want of the CPU. ``committed`` is by
    counter, and empty where nobody counts: the load is then taken to be even. ``components`` are those whose threads
    could be looked at.
    """

    now: float
    active: bool
    runnable: float
    committed: Mapping[str, int] = field(default_factory=dict)
    moved: bool = False
    lacking: bool = True
    components: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase that is under way. What counts is from ``since``, a commit once slices have settled, to ``last``."""

    begun: float
    committed: Mapping[str, int]
    last: float  # when a commit was seen last; without counters every period passes for one
    components: frozenset[str] = frozenset()
    silence: float = 0.0  # the longest
    since: float | None = None
    base: Mapping[str, int] = field(default_factory=dict)
    runnable: float = 0.0  # from since to last
    pending: float = 0.0  # after last

    @classmethod
    def at(cls, look: Look) -> Phase:
        """Begin with the end of a period."""
        return cls(look.now, look.committed, look.now, look.components)

    def comparable(self, look: Look) -> bool:
        """Whether the same is counted as before, and no count was taken back."""
        before, now = self.committed, look.committed
        return before.keys() == now.keys() and all(now[name] >= count for name, count in before.items())

    def add(self, look: Look) -> Phase:
        """Take in a period."""
        if look.committed and look.committed == self.committed:
            return replace(self, pending=self.pending + look.runnable)
        silence = max(self.silence, look.now - self.last)
        after = replace(self, committed=look.committed, last=look.now, silence=silence, pending=0.0)
        if self.since is None or look.now - self.begun <= SETTLE:
            return replace(after, since=look.now, base=look.committed)
        return replace(after, runnable=self.runnable + self.pending + look.runnable)

    def cost(self, now: float, patience: float, most: float = math.inf) -> float | None:
        """Runnable seconds per transaction, infinite in a silence too long; ``None`` while the phase goes on.

        It ends before its time if it is shown to cost ``most`` or more.
        """
        if now > self.last:
            return math.inf if now - self.last >= patience else None
        if self.since is None or now <= self.since:
            return None
        done = sum(count - self.base[name] for name, count in self.committed.items())
        cost = self.runnable / (done if self.committed else now - self.since)
        ends = now - self.begun >= PHASE or (now - self.since >= ENOUGH and cost >= most)
        return cost if ends else None


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial with all it remembers. ``on`` says whether slices are to be in force now."""

    on: bool = False
    text: str = "not tried yet"
    gains: tuple[float, ...] = ()
    pairs: int = 0  # since the beginning of all: which phase comes first
    first: float | None = None  # the cost of the first phase of the pair
    silence: float | None = None  # the longest of the last phase without slices, and ...
    usual: float | None = None  # ... what that cost
    phase: Phase | None = None
    voids: int = 0
    seen: float = -math.inf
    in_force: float = 0.0  # seconds of this trial
    steady_since: float | None = None
    verdict: bool | None = None
    until: float = -math.inf
    holds: float = HOLDS

    def step(self, look: Look) -> Trial:
        """Take one period in."""
        passed = look.now - self.seen if self.on and self.verdict is None else 0.0
        after = replace(self, seen=look.now, in_force=self.in_force + passed)._go_on(look)
        if after.verdict is None and after.in_force >= IN_FORCE:
            return after._reject(look.now, f"not kept: no evidence in {after.in_force:.0f} s in force")
        return after

    def _go_on(self, look: Look) -> Trial:
        if not look.active:
            until = -math.inf if self.verdict else self.until
            return replace(self, until=until)._broken_off(None)
        if self.steady_since is None or look.moved:
            return self._broken_off(look.now)
        if self.verdict is not None and look.now < self.until:
            return replace(self, on=self.verdict)
        if self.phase is None and not self._holds and not look.lacking:
            known = self.gains or self.verdict is not None
            return replace(self, steady_since=look.now, text=self.text if known else NOT_NEEDED)
        if look.now - self.steady_since < STEADY:
            return self
        if self.verdict is False:
            return replace(self, verdict=None, gains=(), voids=0, in_force=0.0)._go_on(look)
        if self.phase is None:
            text = self.text if self.gains else BEGUN
            return replace(self, phase=Phase.at(look), first=None, on=self._begins_with(), text=text)
        if look.components != self.phase.components:  # it comes and goes, which says nothing against slices
            return self._broken_off(self.steady_since)
        if not self.phase.comparable(look):
            return self._void(look.now)
        phase = self.phase.add(look)
        most = self.usual * math.exp(CLIP) if self.on and self.usual is not None else math.inf
        cost, after = phase.cost(look.now, self._patience(), most), replace(self, phase=phase)
        return after if cost is None else after._end(look, phase.silence, cost)

    def _patience(self) -> float:
        """Say how many seconds without a commit end the phase."""
        return min(SILENT, max(PATIENCE, HARM * self.silence)) if self.on and self.silence is not None else SILENT

    @property
    def _holds(self) -> bool:
        """Whether slices are kept, and have shown it in this interference."""
        return self.verdict is True and self.until > -math.inf

    def _broken_off(self, steady_since: float | None) -> Trial:
        """Drop the pair that is under way."""
        after = replace(self, phase=None, first=None, silence=None, usual=None, on=self._holds)
        return replace(after, steady_since=steady_since)

    def _void(self, now: float) -> Trial:
        """Drop a pair that can't be compared, and count it: nothing is tried, or kept, for ever without evidence."""
        after = replace(self._broken_off(self.steady_since), pairs=self.pairs + 1, voids=self.voids + 1)
        if self.verdict and after.voids >= WATCHED:
            return after._reject(now, f"not kept any more: nothing to compare in {after.voids} pairs of phases")
        if self.verdict:
            return replace(after, until=now + WATCH) if self._holds else after
        if len(self.gains) + after.voids >= MOST_PAIRS:
            return after._reject(now, f"not kept: {after.voids} of {MOST_PAIRS} pairs of phases can't be compared")
        return after

    def _begins_with(self) -> bool:
        """Say which phase a pair begins with, by the Thue-Morse sequence; watching, or at first, one without."""
        return self.verdict is None and self.usual is not None and self.pairs.bit_count() % 2 == 1

    def _end(self, look: Look, silence: float, cost: float) -> Trial:
        """End a phase, and with every second one a pair."""
        if not self.on and not 0 < cost < math.inf:  # nothing was done without slices: nothing to compare with
            return self._void(look.now)
        after = self if self.on else replace(self, silence=silence, usual=cost)
        if self.first is None:
            return replace(after, first=cost, on=not self.on, phase=Phase.at(look))
        off, on = (self.first, cost) if self.on else (cost, self.first)
        return after._pair(look, off, on) if on > 0 else after._void(look.now)

    def _pair(self, look: Look, off: float, on: float) -> Trial:
        """Take a pair of costs in, and go on, or come to a verdict."""
        gains = (*self.gains, max(-CLIP, min(CLIP, math.log(off) - math.log(on))))
        after = replace(self, gains=gains, pairs=self.pairs + 1, first=None, phase=Phase.at(look))
        after = replace(after, on=after._begins_with())
        return after._watch(look.now) if self.verdict else after._judge(look.now)

    def _judge(self, now: float) -> Trial:
        """Come to a verdict if the pairs allow one."""
        count, mean = len(self.gains), sum(self.gains) / len(self.gains)
        text = f"{count} pairs of phases: {saved(mean)} with slices"
        if winnings(self.gains) >= ODDS:
            kept = replace(self, verdict=True, on=True, phase=None, voids=0, gains=self.gains[-WATCHED:])
            return replace(kept, until=now + WATCH, holds=HOLDS, text=f"kept: {text}")
        losing = mean < -GAIN and (count >= LOSING_PAIRS or mean <= -CLIP)
        if losing or (count >= IDLE_PAIRS and mean < GAIN) or count + self.voids >= MOST_PAIRS:
            return self._reject(now, f"not kept: {text}")
        return replace(self, text=f"on trial: {text}")

    def _watch(self, now: float) -> Trial:
        """Judge kept slices by the last pairs."""
        gains = self.gains[-WATCHED:]
        mean = sum(gains) / len(gains)
        text = f"{len(gains)} last pairs of phases: {saved(mean)}"
        if mean < 0:
            return self._reject(now, f"not kept any more: {text}")
        if gains[-1] < 0:
            return replace(self, gains=gains, voids=0, text=f"kept: {text}")
        return replace(self, gains=gains, voids=0, on=True, phase=None, until=now + WATCH, text=f"kept: {text}")

    def _reject(self, now: float, text: str) -> Trial:
        holds = min(LONGEST, 2 * self.holds)
        after = replace(self._broken_off(self.steady_since), verdict=False, on=False, holds=holds, text=text)
        return replace(after, until=now + self.holds)


def saved(mean: float) -> str:
    """Spell a mean gain. No pair counts for more than the clip, so this is no estimate of a great one."""
    return f"{1 - math.exp(-mean):+.0%} (each within {CLIP:.0%}) less runnable time per transaction"


def winnings(gains: tuple[float, ...]) -> float:
    """Give what a stake of 1 has become by betting on each gain to be worth it."""
    return math.prod(1 + BET * (gain - GAIN) / (CLIP + GAIN) for gain in gains)
