"""A toy of a channel in a closed loop: what it commits grows with its components' factor, with noise, in blocks."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from qioi.controller.laws.beyond import Beyond, State
from qioi.model import ChannelReading


@dataclass
class ToyChannel:
    """A is ``alone`` without neighbours; beside them it grows with the factor.

    With ``half`` it is as measured beside 8 sysbench (docs/laws.md): of four fifths of ``alone`` the part that the
    factor is of itself and ``half`` together. Without, it grows with a power of the factor up to ``alone``, and hardly
    any more from the factor ``enough`` on. A nears what belongs to another factor by its e-th part each ``lag``
    seconds. ``noise`` is A's over a second and a half, ``offered`` what is sent at most in transactions per second. An
    ``is_open`` load sends that whatever is committed: what is not done meanwhile is the ``backlog``, in transactions.
    ``source`` is who counts; :meth:`counted_by` has another one go on. A host that is ``full`` never has room.
    """

    alone: float = 2000.0
    enough: float = 3.5
    half: float | None = None
    lag: float = 0.0
    noise: float = 0.1
    seed: int = 1
    offered: float = math.inf
    block: int = 500
    most: float = 16.0
    is_open: bool = False
    backlog: float = 0.0
    source: str = "log"
    full: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now = self.last = self.begun = self.wave = 0.0
        self.total = 0
        self.room = True
        self.factor = 1.0
        self.rate = self.throughput(self.factor)
        self.beyond = Beyond()
        self.history: list[tuple[float, float, float]] = []  # time, factor, what A is without noise

    def throughput(self, factor: float) -> float:
        """Give A without noise."""
        if self.room:
            can = self.alone
        elif self.half is not None:
            can = 0.8 * self.alone * factor / (factor + self.half)
        else:
            can = self.alone * (1 + (self.enough / factor) ** 2.7) ** -0.25
        return can if self.backlog > 0 else min(self.offered, can)

    def run(self, seconds: int, owed: float, needs: bool = True) -> None:
        """Run for so long in periods of a second; one that ``needs`` is raised to the ceiling beside neighbours."""
        for _ in range(seconds):
            for _ in range(20):
                self.now += 0.05
                self.wave += -self.wave / 30 + self.noise * math.sqrt(1 / 15) * self.random.gauss(0, 1)
                self.rate += (self.throughput(self.factor) - self.rate) * (0.05 / self.lag if self.lag else 1.0)
                done = max(0.0, self.rate * (1 + self.wave)) * 0.05
                if self.is_open:
                    sent = self.backlog + self.offered * 0.05
                    done = min(done, sent)
                    self.backlog = sent - done
                self.begun += done
                if full := int(self.begun // self.block) * self.block:
                    self.begun -= full
                    self.total, self.last = self.total + full, self.now
            reading = ChannelReading("red", None, self.now - self.last, 0, self.total, self.source)
            self.beyond = self.beyond.step(
                self.now, owed, reading, State(self.room and not self.full, self.factor, self.most)
            )
            self.history.append((self.now, self.factor, self.throughput(self.factor)))
            wanted = self.beyond.factor
            lacks = self.factor > 1.0 or self.rate < owed
            self.factor = wanted if wanted is not None else self.most if needs and lacks and not self.room else 1.0

    def counted_by(self, source: str, more: int) -> None:
        """Have another source count from now on, which has seen so many transactions more, or less."""
        self.source, self.total = source, self.total + more

    def over(self, since: float) -> tuple[float, float]:
        """Give the mean of A without noise since then, and the largest factor as a multiple of the least."""
        rows = [row for row in self.history if row[0] > since]
        factors = [factor for _, factor, _ in rows]
        return sum(rate for *_, rate in rows) / len(rows), max(factors) / min(factors)
