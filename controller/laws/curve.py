"""How a channel's A grows with the factor of its components' shares beside neighbours, by what a few have shown.

Components that weigh x times their default get x / (x + h) of a CPU beside neighbours who weigh h times that. So A is
M x / (x + h), where M is what it would be at any factor, however large, and 1/A is a straight line over 1/x. Beside 8
sysbench on two cores a closed loop did 950, 1,650 and 2,050 tps at factors of 1, 5 and 16: h is 1.2 to 1.7 by each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: M, to A alone: beside neighbours a transaction takes more CPU. h where nothing is known of it. How wrong A by these
#: may be, as a part of it; M is known twice as well.
PEAK, USUAL, UNKNOWN = 0.8, 1.4, 0.3
#: Between which h is looked for.
LEAST, MOST = 0.2, 50.0
#: What was shown gets worse with time, per second, and with the distance, for a factor that is e times as large: both
#: as parts of A.
DRIFT, APART = 0.003, 0.1


class Shown(NamedTuple):
    """A at a factor, in transactions per second; what it may be off by, as a part of it; and when that was seen."""

    factor: float
    rate: float
    noise: float
    at: float


class Curve(NamedTuple):
    """1/A as a line over 1/factor: its ``level`` and ``slope``; and the sums of weights that say how sure it is."""

    level: float
    slope: float
    weights: tuple[float, float, float]

    def rate(self, factor: float) -> float:
        """Give A at a factor."""
        return 1 / (self.level + self.slope / factor)

    def factor(self, rate: float) -> float:
        """Give the factor at which A is ``rate``; infinity where no factor is enough."""
        left = 1 / rate - self.level
        return self.slope / left if left > 0 else math.inf

    def doubt(self, factor: float) -> float:
        """Give what A at a factor may be off by, as a part of it."""
        zero, one, two = self.weights
        variance = (two - 2 * one / factor + zero / factor**2) / (zero * two - one**2)
        return self.rate(factor) * math.sqrt(variance)


def usual(alone: float, half: float = USUAL) -> Curve:
    """Give the curve to begin with of a channel that does ``alone`` without neighbours; ``half`` is h."""
    return Curve(1 / (PEAK * alone), half / (PEAK * alone), (0.0, 0.0, 0.0))


def fit(shown: Sequence[Shown], most: float, alone: float | None = None) -> Curve:
    """Fit a curve to what was shown, of which the last is the newest; ``most`` is the largest factor there may be.

    ``alone`` is what the channel does without neighbours, where that is known.
    """
    last = shown[-1]
    points = [(1 / one.factor, 1 / one.rate, _weight(one, last)) for one in (*shown, _guess(last, most, alone))]
    if alone is not None:
        peak = PEAK * alone
        points.append((0.0, 1 / peak, (peak / (UNKNOWN / 2)) ** 2))
    zero, one, two, level, slope = _line(points)
    if not LEAST * level <= slope <= MOST * level:
        half = LEAST if slope < LEAST * level else MOST
        sizes = [(1 + half * u, y, weight) for u, y, weight in points]
        level = sum(x * y * weight for x, y, weight in sizes) / sum(x * x * weight for x, _, weight in sizes)
        slope = half * level
    return Curve(level, slope, (zero, one, two))


def _line(points: Iterable[tuple[float, float, float]]) -> tuple[float, float, float, float, float]:
    """Give the sums of weights, of weights by u and by its square, and the level and the slope of the best line."""
    zero = one = two = y_zero = y_one = 0.0
    for u, y, weight in points:
        zero, one, two = zero + weight, one + weight * u, two + weight * u * u
        y_zero, y_one = y_zero + weight * y, y_one + weight * u * y
    over = zero * two - one**2
    return zero, one, two, (two * y_zero - one * y_one) / over, (zero * y_one - one * y_zero) / over


def _weight(shown: Shown, last: Shown) -> float:
    """Weigh what was shown, as seen from the newest."""
    old, far = DRIFT * (last.at - shown.at), APART * math.log(shown.factor / last.factor)
    return shown.rate**2 / (shown.noise**2 + old**2 + far**2)


def _guess(shown: Shown, most: float, alone: float | None) -> Shown:
    """Guess A at the other end of what factors there are; by A alone, at the default."""
    if alone is not None:
        return Shown(1.0, usual(alone).rate(1.0), UNKNOWN, shown.at)
    other = 1.0 if shown.factor > math.sqrt(most) else most
    rate = shown.rate * (1 + USUAL / shown.factor) / (1 + USUAL / other)
    return Shown(other, rate, UNKNOWN, shown.at)
