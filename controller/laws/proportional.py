"""The law ``proportional``: Algorithm 1 of the QiOi paper (Appl. Sci. 2021, 11(9), 3870).

    diff = |T - A|
    A < T:      S_next = S_default + S_default * k * diff / T
    otherwise:  S_next = S_prev

The bounds are ours: the paper has none, and a kernel has. So is that S stays while A is not known, and goes back to
S_default when A was known and has not been for half a minute: a log that is gone, another node's report that is stale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from qioi.controller.laws.law import Effect, Seen, Verdict
from qioi.model import DEFAULT_SHARES, UNBOUNDED, Bounds, Working

#: Seconds without throughput, once known, after which the share is the default again.
STALE = 30.0


@dataclass(frozen=True, slots=True)
class Proportional:
    """Algorithm 1. ``share`` is S_prev; ``default`` is S_default.

    ``known_at`` is when throughput was known last; where it never was, when it was asked for first.
    """

    share: int = DEFAULT_SHARES
    k: float = 4.0
    default: int = DEFAULT_SHARES
    bounds: Bounds = UNBOUNDED
    known_at: float | None = None

    def at(self, share: float) -> Proportional:
        """Go on from that share, as far as the bounds allow; what was known before says nothing about it."""
        return replace(self, share=self.bounds.clamp(share), known_at=None)

    def limited(self, share: int, before: int) -> Proportional:
        """Stay: the algorithm has no integral that could wind up."""
        del share, before
        return self

    def step(self, seen: Seen) -> tuple[Proportional, Verdict]:
        """Apply the algorithm once."""
        throughput, threshold = seen.throughput, seen.threshold
        if throughput is not None:
            return replace(self, known_at=seen.now)._known(throughput, threshold)
        if self.known_at is None:
            return replace(self, known_at=seen.now)._hold("throughput not known yet")
        if seen.now - self.known_at <= STALE:
            return self._hold(f"throughput not known for {seen.now - self.known_at:.0f} s")
        cause = f"throughput not known for {STALE:.0f} s and more"
        return self._next("no input", self.default, cause, Effect.DEFAULT)

    def _known(self, throughput: float, threshold: float | None) -> tuple[Proportional, Verdict]:
        if threshold is None:
            return self._hold("threshold not known yet")
        error = (threshold - throughput) / threshold
        if throughput >= threshold:
            return self._hold(f"A {throughput:.1f} >= T {threshold:.1f} tps", error)
        wanted = self.default + self.default * self.k * error
        cause = f"A {throughput:.1f} < T {threshold:.1f} tps, {self.default} + {self.default}*{self.k:g}*{error:.3f}"
        if not self.bounds.floor <= wanted <= self.bounds.ceiling:
            cause += f", bounded to {self.bounds.floor}..{self.bounds.ceiling}"
        return self._next("raise", wanted, cause, Effect.RAISED, error)

    def _hold(self, cause: str, error: float | None = None) -> tuple[Proportional, Verdict]:
        return self._next("hold", self.share, cause, Effect.HELD, error)

    def _next(
        self, rule: str, wanted: float, cause: str, effect: Effect, error: float | None = None
    ) -> tuple[Proportional, Verdict]:
        shares = self.bounds.clamp(wanted)
        working = Working(rule, wanted, self.bounds.floor, self.bounds.ceiling)
        return replace(self, share=shares), Verdict(shares, cause, effect, error, working)
