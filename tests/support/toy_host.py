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
        fresh = {name: self.demand[name] * dt * (1 + self.noise * self.random.uniform(-1, 1)) for name in self.demand}
        wanted = {name: fresh[name] + self.backlog.get(name, 0.0) for name in self.demand}
        kernel = self._moment(dt)
        got = self._fill({**wanted, **{f"hog{i}": dt for i in range(self.hogs)}}, shares, self.cores * dt - kernel)
        foreign = sum(cpu for name, cpu in got.items() if name.startswith("hog"))
        ledger = sum(got[name] for name in self.demand)
        delays = {}
        for name in self.demand:
            owed = wanted[name] - got[name]
            self.backlog[name] = min(owed, 5.0)
            behind = foreign / (self.cores * dt) * self.hogs * 1024 / shares[name]  # waits on waking up
            behind += 0.3 * ledger / (self.cores * dt)  # and behind the ledger itself
            behind += 20 * kernel / (self.cores * dt)
            wait = got[name] * behind * (1 + self.noise * self.random.uniform(-1, 1)) + owed
            delays[name] = DelayReading(name, got[name], wait, 100, dt)
        served = min(got[name] / fresh[name] for name in fresh)  # above 1 while a backlog drains
        capacity, foreign = self.cores * dt, foreign + kernel
        return delays, HostLoad(max(0.0, 1 - (foreign + ledger) / capacity), foreign / capacity), served

    @staticmethod
    def _fill(wanted: dict[str, float], shares: Mapping[str, int], capacity: float) -> dict[str, float]:
        """Deal capacity out by weight; who wants less than its part leaves the rest to the others."""
        got = dict.fromkeys(wanted, 0.0)
        open_names = set(wanted)
        while open_names and capacity > 1e-12:
            total = sum(shares.get(name, 1024) for name in open_names)
            sated = {n for n in open_names if wanted[n] - got[n] <= capacity * shares.get(n, 1024) / total + 1e-12}
            if not sated:
                for name in open_names:
                    got[name] += capacity * shares.get(name, 1024) / total
                break
            for name in sated:
                capacity -= wanted[name] - got[name]
                got[name] = wanted[name]
            open_names -= sated
        return got
