"""The law ``adaptive`` (ours): act on what is waited for, not on throughput alone.

Algorithm 1 has no memory: as throughput returns, its share falls back and starvation starts again.
This law keeps what it has found to be enough. It needs three things the paper's does without:

- *need* (need.py): the share of its runnable time that a component spends waiting behind foreign work.
- *demand*: commits seen lately, or, while there are none, work that shows it (unheard.py). A ledger nobody sends to is
  never raised, but what is raised stays so while the neighbour does: the next load then finds it raised.
- *room*: an idle share of the host, or no foreign work. Raised shares remove the waiting that was their
  reason, so its absence proves nothing; idle CPU, or the end of the foreign work, does.

Raising is fast (one period), releasing is fast only when there is room; while the neighbour stays, the
share is probed downwards in small steps, ever more rarely once a probe has hurt. So shares settle.
The share itself is the integral of the steps, which leaves no steady-state error, and it is stored
clamped, which leaves nothing to wind up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.laws.backoff import Backoff
from qioi.controller.laws.law import Effect, Seen, Verdict, rest_of
from qioi.controller.laws.memory import Memory, Tuning
from qioi.controller.laws.need import has_room, is_below, odds, shortfall
from qioi.model import DEFAULT_SHARES, UNBOUNDED, Bounds, Working


class Move(NamedTuple):
    """What a rule has come to: the memory after it, why, what was done, and what it asked for before the bounds."""

    memory: Memory
    cause: str
    effect: Effect
    wanted: float | None = None


class Adaptive(Struct, frozen=True):
    """The law for one component and one channel."""

    default: int
    bounds: Bounds
    tuning: Tuning
    memory: Memory

    @classmethod
    def start(cls, default: int = DEFAULT_SHARES, bounds: Bounds = UNBOUNDED, tuning: Tuning | None = None) -> Adaptive:
        """Begin at the default (within the bounds) with nothing remembered."""
        return cls(default, bounds, tuning or Tuning(), Memory(float(bounds.clamp(default))))

    @property
    def share(self) -> float:
        """What it has come to."""
        return self.memory.share

    @property
    def rest(self) -> float:
        """Where the share goes when nothing is needed."""
        return float(rest_of(self))

    @property
    def stride(self) -> float:
        """The largest factor of one raise. Beside heavy neighbours, whom the ceiling follows, it is half of that one.

        Two steps of the usual size would pile up a backlog for a period more, and beside a parent group's neighbours
        cost a Raft leader.
        """
        return max(self.tuning.step_cap, self.bounds.ceiling / (2 * self.rest))

    def framed(self, default: int, bounds: Bounds) -> Adaptive:
        """Go on with another default and other bounds."""
        return replace(self, default=default, bounds=bounds).at(self.share)

    def at(self, share: float) -> Adaptive:
        """Go on from that share, as far as the bounds allow."""
        after = float(self.bounds.clamp(share))
        return self if after == self.memory.share else replace(self, memory=self.memory._replace(share=after))

    def limited(self, share: int, before: int) -> Adaptive:
        """Go on from what was given. Where that is what was in force, no raise's effect is to be waited for."""
        if self.memory.share <= share:
            return self
        raised_at = self.memory.raised_at if share > before else -math.inf
        return replace(self, memory=self.memory._replace(share=float(share), raised_at=raised_at))

    def step(self, seen: Seen) -> tuple[Adaptive, Verdict]:
        """Remember what was seen, then take the first rule that applies."""
        law = Adaptive(self.default, self.bounds, self.tuning, self.memory.after(seen, self.tuning))
        asked_at = seen.now if self.memory.asked_at is None else self.memory.asked_at
        rule, move = law._rule(seen, max(0.0, seen.now - asked_at))
        if move.memory is not law.memory:
            law = Adaptive(self.default, self.bounds, self.tuning, move.memory)
        wanted = move.memory.share if move.wanted is None else move.wanted
        working = Working(rule, wanted, law.bounds.floor, law.bounds.ceiling)
        return law, Verdict(law.bounds.clamp(move.memory.share), move.cause, move.effect, shortfall(seen), working)

    def _rule(self, seen: Seen, elapsed: float) -> tuple[str, Move]:
        """Name and apply the first rule that has something to say."""
        if (move := self._without_input(seen, elapsed)) is not None:
            return "no input", move
        if (move := self._raise(seen)) is not None:
            return "raise", move
        if (move := self._room(seen, elapsed)) is not None:
            return "room", move
        return "probe", self._probe(seen)

    def _without_input(self, seen: Seen, elapsed: float) -> Move | None:
        """Stale or missing input: hold, and then go back, or stay for the next commits while the neighbour does.

        A raised share costs nobody anything while its component sleeps.
        """
        memory = self.memory
        since = seen.now - memory.input_at
        if since == 0.0:
            return None
        missing = "no scheduling delay read" if seen.delay is None else "no commits"
        if memory.share == self.rest:
            return Move(memory, missing, Effect.DEFAULT)
        if since <= self.tuning.hold:
            return Move(memory, f"{missing} for {since:.0f} s", Effect.HELD)
        if seen.delay is not None and seen.host is not None and (seen.commit_age is not None or seen.armed):
            kept = Move(memory, f"no commits for {since:.0f} s, but the neighbour is still there", Effect.HELD)
            return self._room(seen, elapsed) or kept
        return Move(self._towards_rest(seen.now, elapsed), missing, Effect.RELEASED)

    def _raise(self, seen: Seen) -> Move | None:
        """Raise where foreign work is waited for, by the need, at most by the step cap."""
        memory, tuning = self.memory, self.tuning
        error = shortfall(seen)
        if error is not None and error < -tuning.surplus:
            return None
        below = is_below(seen)
        pressing, slow = self._pressing(seen), memory.slow.need
        urgent = pressing > tuning.urgent or (below and pressing > tuning.low)
        # An urgent raise that was not enough is followed up at once: meanwhile a backlog grows.
        unfinished = pressing > tuning.high and seen.now - memory.urgent_at < tuning.slow
        if urgent or unfinished:
            if seen.now - memory.raised_at < tuning.settle:
                return Move(memory, "raised a moment ago, waiting for the effect", Effect.HELD)
            need = pressing
        elif min(pressing, slow) > tuning.high and seen.now - max(memory.raised_at, memory.begun_at) >= tuning.slow:
            need = slow
        else:
            return None
        # The step aims at where this rule ends: below the threshold that is the lower need.
        target = tuning.low if below else tuning.high
        growth = min(self.stride - 1, max(odds(need) / odds(target) - 1, error or 0.0))
        why = f"waits {need:.0%} of its runnable time behind foreign work"
        if below:
            why += f", {error:.0%} below its threshold"
        if memory.share >= self.bounds.ceiling:
            return Move(memory, f"{why}, but is at its ceiling", Effect.HELD)
        if growth < tuning.dead_band:
            return Move(memory, f"{why}, within the dead band", Effect.HELD)
        wanted = memory.share * (1 + growth)
        if pressing > tuning.urgent and seen.host is not None and seen.host.sudden:
            # So short a reading says little of how much is needed, and until a second step a backlog would pile up.
            wanted, why = max(wanted, self.rest * tuning.onset_step), f"{why}; many came at once"
        return Move(self._raised(wanted, seen.now, urgent=urgent), why, Effect.RAISED, wanted)

    def _pressing(self, seen: Seen) -> float:
        """Give the need that is not to wait any longer: of a moment where the host is full, or somebody has just come.

        Where it has room, a tenth of a second of somebody's work, a kernel thread's, is no neighbour. What lasts for a
        second is waited for, though: the component may be bound to CPUs that are full, or to a quota. One that is idle
        or dead has none, though the filters, whose two terms fade alike, keep the need that it had last.
        """
        memory, tuning = self.memory, self.tuning
        if memory.fast.runnable < tuning.still:
            return 0.0
        full = seen.host is None or seen.host.sudden or not has_room(seen.host)
        return memory.fast.need if full or seen.now - memory.calm_at > tuning.lasts else 0.0

    def _raised(self, wanted: float, now: float, *, urgent: bool) -> Memory:
        """Take the share, and let a raise that closely follows a release or a probe put off the next one."""
        memory, tuning = self.memory, self.tuning
        release, probe = memory.release, memory.probe
        if release.is_recent(now):
            release = release.hurt(now, tuning.back_off, tuning.back_off_max)
        elif memory.share == self.rest:
            release = release._replace(wait=0.0)
        if probe.is_recent(now):
            probe = probe.hurt(now, tuning.probe_every, tuning.probe_max)
        else:
            probe = probe._replace(wait=probe.wait or tuning.probe_every).put_off(now)
        return memory._replace(
            share=float(self.bounds.clamp(wanted)),
            raised_at=now,
            urgent_at=now if urgent else memory.urgent_at,
            room_since=None,  # what is needed now is no room, though there may have been some for most of a second
            release=release,
            probe=probe,
        )

    def _room(self, seen: Seen, elapsed: float) -> Move | None:
        """Go back when the neighbour is gone: the host has had room for a while."""
        memory, tuning, now = self.memory, self.tuning, seen.now
        if memory.share == self.rest:
            return Move(memory, self._why_default(seen), Effect.DEFAULT)
        if memory.room_since is None or now - memory.room_since < tuning.room_for:
            return None
        if now < memory.release.until:
            left = memory.release.until - now
            return Move(memory, f"room on the host, but a release hurt lately, for {left:.0f} s more", Effect.HELD)
        # A release for want of input is not marked: what is needed when commits come back says nothing about it.
        gone = self._towards_rest(now, elapsed)
        if memory.release.tried_at < memory.room_since:  # how they were waited for says nothing of what is from now on
            gone = gone._replace(slow=memory.fast)
        return Move(
            gone._replace(release=memory.release._replace(tried_at=now)), "the neighbour is gone", Effect.RELEASED
        )

    def _why_default(self, seen: Seen) -> str:
        """Say why a share at its default stays there."""
        need, surplus = self._pressing(seen), -(shortfall(seen) or 0.0)
        if need <= self.tuning.low:
            return "nothing waits behind foreign work"
        why_not = "too little for a raise"
        if surplus > self.tuning.surplus:
            why_not = f"but A is {surplus:.0%} above T"
        elif need > self.tuning.high:
            why_not = "not for long enough yet"
        return f"waits {need:.0%} of its runnable time behind foreign work, {why_not}"

    def _towards_rest(self, now: float, elapsed: float) -> Memory:
        """Shrink the distance to the default exponentially; the last of it goes at once."""
        share = self.rest + (self.memory.share - self.rest) * math.exp(-elapsed / self.tuning.release)
        if abs(share - self.rest) <= self.tuning.dead_band * self.rest:
            share = self.rest
        wait = self.tuning.probe_every
        return self.memory._replace(share=share, probe=self.memory.probe._replace(wait=wait, until=now + wait))

    def _probe(self, seen: Seen) -> Move:
        """While the neighbour stays: hold, and rarely try a slightly lower share."""
        memory, tuning = self.memory, self.tuning
        if memory.probe.until == math.inf:  # its share was set, and no raise has put the first try off
            memory = memory._replace(probe=Backoff(tuning.probe_every).put_off(seen.now))
        if seen.now < memory.probe.until:
            return Move(memory, "the neighbour is still there", Effect.HELD)
        if memory.slow.need > tuning.low or is_below(seen):
            return Move(memory._replace(probe=memory.probe.put_off(seen.now)), "just enough", Effect.HELD)
        share = max(self.rest, memory.share * (1 - tuning.probe_step))
        return Move(memory._replace(share=share, probe=memory.probe.tried(seen.now)), "more than enough", Effect.PROBED)
