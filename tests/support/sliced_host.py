"""A host whose ledger has slices on trial, period after period, without a kernel."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from qioi.controller.findings.slice_trial import MOST_PAIRS, PHASE, STEADY, Look, Trial

#: Seconds in which every trial has come to a verdict.
LONG = int(STEADY + 2 * MOST_PAIRS * (PHASE + 1) + 2)


class Host:
    """A ledger of 1,000 transactions a second, in blocks that are so far apart.

    ``with_slices`` and ``without`` are runnable time per second, each phase times its own ``noise``.
    """

    def __init__(
        self,
        with_slices: float,
        without: float,
        *,
        noise: float = 0.0,
        seed: int = 3,
        dt: float = 1.0,
        blocks: tuple[float, float] = (0.02, 0.02),
    ) -> None:
        self.trial, self.now, self.dt = Trial(), 0.0, dt
        self.with_slices, self.without, self.noise, self.blocks = with_slices, without, noise, blocks
        self.tps: Callable[[bool], float] = lambda on: 1000.0
        self.counted = True
        self.chance = random.Random(seed)
        self.sent, self.committed = 0.0, 0
        self.cut = self.chance.uniform(*blocks)

    def run(self, seconds: float, *, active: bool = True, moved: bool = False, lacking: bool = True) -> list[bool]:
        """Go on for so long; say in which periods slices were in force."""
        periods = []
        # As Random.uniform draws, without its call: a period of three seconds has 150 blocks.
        draw, (low, high) = self.chance.random, self.blocks
        for _ in range(round(seconds / self.dt)):
            on = self.trial.on
            self.now += self.dt
            self.sent += self.tps(on) * self.dt
            if self.now >= self.cut:
                self.committed = int(self.sent)
                while self.now >= self.cut:
                    self.cut += low + (high - low) * draw()
            cost = (self.with_slices if on else self.without) * math.exp(self.noise * self.chance.gauss(0, 1))
            counts = {"red": self.committed} if self.counted else {}
            self.trial = self.trial.step(Look(self.now, active, cost * self.dt, counts, moved, lacking))
            periods.append(on)
        return periods


def kept(gain: float = 0.5) -> Host:
    """Give a host on which slices have been kept."""
    host = Host(1 - gain, 1.0)
    host.run(LONG)
    assert host.trial.verdict is True
    return host
