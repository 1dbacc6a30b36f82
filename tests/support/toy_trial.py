"""Components on one CPU whose shares may or may not have an effect, for the trials that find that out."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from qioi.controller.findings.channels import look_at_all
from qioi.controller.findings.effect import LONG, QUARTER, Effects
from qioi.controller.findings.limits import Reason
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role

REST, MOST = 1024, 16_384
#: Seconds of a whole trial, from the first period with less to the last one before shares are back.
WHOLE = QUARTER + LONG + 3
#: Seconds in which less is had while one finds out that it does harm: a look, and a period at its beginning and end.
LOOK = LONG + 2


@dataclass(frozen=True)
class World:
    """One CPU, as the kernel divides it: real-time work first, and what is left by weight among those who want it.

    ``others`` is the weight of neighbours that always want to run. Each component wants ``demands`` of the CPU.
    """

    real_time: float = 0.0
    others: int = 0
    demands: tuple[float, ...] = (1.0,)
    room: bool = False

    def divide(self, shares: Sequence[int]) -> list[tuple[float, float]]:
        """Give what each component runs, and how long it is runnable and does not, in a second."""
        runs, left = [0.0] * len(shares), 1.0 - self.real_time
        hungry = set(range(len(shares)))
        while True:
            weight = self.others + sum(shares[one] for one in hungry)
            full = {one for one in hungry if self.demands[one] <= left * shares[one] / weight}
            for one in full:
                runs[one] = self.demands[one]
                left -= runs[one]
            hungry -= full
            if not full:
                break
        for one in hungry:
            runs[one] = left * shares[one] / weight
        alone = [(1 - self.real_time) * share / (self.others + sum(shares)) for share in shares]
        waits = [min(1 - run, run * (1 / part - 1)) for run, part in zip(runs, alone, strict=True)]
        return [
            (run, 1 - run if one in hungry else wait) for one, (run, wait) in enumerate(zip(runs, waits, strict=True))
        ]

    def helps(self, least: float) -> list[bool]:
        """Say of each component whether all shares at the ceiling serve it better than the defaults, by so much."""
        count = len(self.demands)
        with_less, with_more = (self.divide([share] * count) for share in (REST, MOST))
        return [
            more[0] > least * less[0] or more[0] * sum(less) > least * less[0] * sum(more)
            for less, more in zip(with_less, with_more, strict=True)
        ]


REAL_TIME = World(real_time=0.95)


@dataclass
class Site:
    """Components whose laws ask for all they may have. Channels that are ``idle`` have committed, a minute ago."""

    world: World = REAL_TIME
    owed: float | None = None
    tps: float | None = 50.0
    shares: list[int] = field(default_factory=list)
    channels: tuple[str, ...] = ("red",)
    idle: tuple[str, ...] = ()
    presumed: tuple[str, ...] = ()
    literal: bool = False
    limited: frozenset[str] = frozenset()
    free: bool = True
    hides: bool = False
    noise: float = 0.0

    def __post_init__(self) -> None:
        self.now, self.chance = 0.0, random.Random(1)
        self.effects = Effects(lambda _channel: self.literal)
        self.shares = self.shares or [REST] * len(self.world.demands)
        self.names = [f"peer{one}" for one in range(len(self.shares))]
        self.history: list[list[int]] = []
        self.reasons: list[list[Reason | None]] = []

    def second(self, written: bool = True) -> None:
        """Go through another one, as the world has it. What a test waits for comes within a day."""
        assert self.now < 86_400
        divided = self.world.divide(self.shares)
        foreign = max(0.0, 1.0 - sum(run for run, _ in divided))
        host = HostLoad(0.5, 0.1) if self.world.room else HostLoad(0.0, foreign)

        def about(mean: float) -> float:
            return max(0.0, mean * self.chance.gauss(1.0, self.noise))

        delays = [
            DelayReading(name, about(run), about(wait), 10, 1.0)
            for name, (run, wait) in zip(self.names, divided, strict=True)
        ]
        self.period(1.0, [] if self.hides else delays, host, written)

    def period(self, seconds: float, delays: Iterable[DelayReading], host: HostLoad, written: bool = True) -> None:
        """Go through a period in which that was read; ``written``: the components get what they ask for."""
        self.now += seconds
        period = Period(
            self.now,
            tuple(Component(name, Role.PEER, f"docker/{name}", self.channels) for name in self.names),
            channels={
                "red": ChannelReading("red", self.tps, 0.1),
                **{name: ChannelReading(name, 0.0, 60.0) for name in self.idle},
            },
            delays={one.component: one for one in delays},
            host=host,
            owed={name: Threshold(self.owed, "configuration") for name in ("red", *self.idle)},
            forces={
                name: InForce(share, REST, Placement((f"docker/{name}",), ""))
                for name, share in zip(self.names, self.shares, strict=True)
            },
        )
        limits = self.effects.step(period, self.limited, self.free, look_at_all(period, self.presumed))
        for one, name in enumerate(self.names):
            asked, limit = min(MOST, 8 * self.shares[one]), limits.get(name)
            if written:
                self.shares[one] = asked if limit is None else min(asked, limit.allows(self.shares[one], REST))
        self.history.append([*self.shares])
        self.reasons.append([limit and limit.reason for limit in map(limits.get, self.names)])

    def run(self, seconds: float) -> list[int]:
        """Go through so many; give the first component's shares."""
        for _ in range(int(seconds)):
            self.second()
        return [shares[0] for shares in self.history[-int(seconds) :]]

    @property
    def share(self) -> int:
        return self.shares[0]

    @property
    def trials(self) -> int:
        """Count the trials of the first component, each of which begins with a quarter."""
        shares = [one[0] for one in self.history]
        return sum(after == MOST // 4 != before for before, after in zip([0, *shares], shares, strict=False))

    def lows(self, one: int) -> list[int]:
        """Give how many seconds a component had less than all in a row, each time."""
        lows = [0]
        for shares in self.history[2:]:
            if shares[one] < MOST:
                lows[-1] += 1
            elif lows[-1]:
                lows.append(0)
        return lows
