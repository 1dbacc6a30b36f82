"""A toy of a shared host: weighted fair CPU, backlog, and waits that shrink as the weight grows.

Not EEVDF itself, but what matters to a law: capacity is dealt out by weight (water filling), what is not
served is owed, and a waking component waits behind the others' weight even when its capacity suffices. A kernel thread
may have its moments: seen on a real host, a tenth of a second every five, which ready components wait for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from qioi.model import DelayReading, HostLoad

HOGS = "(hogs)"


@dataclass
class ToyHost:
    cores: float = 2.0
    hogs: int = 0
    demand: dict[str, float] = field(default_factory=dict)  # cores each component would use
    backlog: dict[str, float] = field(default_factory=dict)
    noise: float = 0.1
    seed: int = 1
    kernel: float = 0.0  # CPU seconds that a kernel thread takes at once, whatever the shares, and every so often
    every: float = 5.2

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.clock = self.due = 0.0  # s; CPU seconds

    def _moment(self, dt: float) -> float:
        """Give the CPU seconds that the kernel thread takes in the next period; it runs on one core."""
        before, self.clock = self.clock, self.clock + dt
        if self.clock // self.every > before // self.every:
            self.due += self.kernel
        taken = min(self.due, 0.8 * dt)
        self.due -= taken
        return taken

    def period(self, shares: Mapping[str, int], dt: float = 1.0) -> tuple[dict[str, DelayReading], HostLoad, float]:
        """Run for ``dt`` seconds; return delays, the host's load and served work as a part of new work."""
        draw = self.random.random
        fresh = {name: cpu * dt * (1 + self.noise * (2 * draw() - 1)) for name, cpu in self.demand.items()}
        wanted = {name: fresh[name] + self.backlog.get(name, 0.0) for name in self.demand}
        kernel = self._moment(dt)
        got, foreign = self._fill(wanted, shares, self.cores * dt - kernel, dt)
        ledger = sum(got.values())
        alike = (0.3 * ledger + 20 * kernel) / (self.cores * dt)  # behind the ledger itself and the kernel's thread
        delays = {}
        for name in self.demand:
            owed = wanted[name] - got[name]
            self.backlog[name] = min(owed, 5.0)
            behind = foreign / (self.cores * dt) * self.hogs * 1024 / shares[name] + alike  # waits on waking up
            wait = got[name] * behind * (1 + self.noise * (2 * draw() - 1)) + owed
            delays[name] = DelayReading(name, got[name], wait, 100, dt)
        served = min(got[name] / fresh[name] for name in fresh)  # above 1 while a backlog drains
        capacity, foreign = self.cores * dt, foreign + kernel
        return delays, HostLoad(max(0.0, 1 - (foreign + ledger) / capacity), foreign / capacity), served

    def _fill(
        self, wanted: dict[str, float], shares: Mapping[str, int], capacity: float, dt: float
    ) -> tuple[dict[str, float], float]:
        """Deal capacity out by weight, the hogs' apart; who wants less than its part leaves the rest to the others."""
        # The hogs are all alike: together they are one that wants and weighs as much.
        wanted, weights = {**wanted, HOGS: self.hogs * dt}, {**shares, HOGS: self.hogs * 1024}
        got = dict.fromkeys(wanted, 0.0)
        hungry = list(wanted) if self.hogs else list(wanted)[:-1]
        while hungry and capacity > 1e-12:
            each = capacity / sum([weights[name] for name in hungry])
            still = [name for name in hungry if wanted[name] > each * weights[name] + 1e-12]
            if len(still) == len(hungry):
                got.update({name: each * weights[name] for name in hungry})
                break
            for name in hungry:
                if name not in still:
                    got[name] = wanted[name]
                    capacity -= wanted[name]
            hungry = still
        return got, got.pop(HOGS)
