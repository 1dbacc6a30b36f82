"""The law ``adaptive`` in a closed loop with the toy host: reaction, settling, and the way back."""

from __future__ import annotations

import math
from collections import deque

import pytest
from msgspec.structs import replace
from toy_host import ToyHost

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Seen
from qioi.controller.laws.unheard import Unheard
from qioi.model import Bounds, HostLoad
from qioi.monitor.scheduler.onset import Onset

DEMAND = {"peer0": 0.35, "peer1": 0.3, "orderer1": 0.15, "orderer2": 0.1, "chaincode": 0.1}
LIMITS = Bounds(1024, 16384)

#: Periods and seeds. With short periods minutes take thousands of steps: `make check` takes them with one seed.
SHORT_AND_LONG = [
    *((dt, 1) for dt in (0.1, 1.0)),
    *((1.0, seed) for seed in (2, 3)),
    *(pytest.param(0.1, seed, marks=pytest.mark.slow) for seed in (2, 3)),
]


class Loop:
    """The daemon's loop without a daemon: one law per component, time in steps of ``dt``."""

    def __init__(self, host: ToyHost, dt: float = 1.0, load: float = 100.0) -> None:
        self.host, self.dt, self.load, self.now = host, dt, load, 0.0
        self.laws = {name: Adaptive.start(bounds=LIMITS) for name in host.demand}
        self.history: list[dict[str, int]] = []
        self.served = 1.0
        self.reasons: dict[str, str] = {}
        self.second: deque[HostLoad] = deque(maxlen=math.floor(0.85 / dt) + 1)  # what is known of the last one
        self.onset, self.come = Onset(2), float("-inf")
        self.committed_at = -60.0

    def over_a_second(self, load: HostLoad) -> HostLoad:
        """Give what the daemon shows a law: with a short period's load that over a second; whether many have come."""
        self.onset, why = self.onset.step(self.now, 4 + self.host.hogs)
        self.come = self.now if why else self.come
        if self.dt > 0.85:
            return load
        self.second.append(load)
        idle = sum([one.idle for one in self.second]) / len(self.second)
        foreign = sum([one.foreign for one in self.second]) / len(self.second)
        return replace(load, lasting=HostLoad(idle, foreign), sudden=self.now - self.come < 1)

    @property
    def shares(self) -> dict[str, int]:
        return {name: LIMITS.clamp(law.memory.share) for name, law in self.laws.items()}

    def run(self, seconds: float, threshold: float | None = 100.0) -> None:
        shares = self.shares
        for _ in range(round(seconds / self.dt)):
            self.now += self.dt
            delays, load, self.served = self.host.period(shares, self.dt)
            load, rate = self.over_a_second(load), self.load * self.served
            self.committed_at = self.now - 0.1 if rate > 0 else self.committed_at
            for name, law in self.laws.items():
                seen = Seen(self.now, rate, threshold, self.now - self.committed_at, delays[name], load)
                self.laws[name], verdict = law.step(seen)
                self.reasons[name] = verdict.reason
            self.history.append(shares := self.shares)


@pytest.fixture(params=[1, 2, 3])
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def at_default(loop: Loop) -> bool:
    return set(loop.shares.values()) == {1024}


@pytest.mark.parametrize("dt", [0.1, 1.0])
@pytest.mark.parametrize("scale", [0.3, 1.0, 1.9])
def test_alone_nothing_is_raised(dt: float, scale: float, seed: int) -> None:
    loop = Loop(ToyHost(demand={name: d * scale for name, d in DEMAND.items()}, seed=seed), dt)
    loop.run(120)
    assert at_default(loop)


@pytest.mark.parametrize("dt", [0.1, 0.3, 1.0])
def test_a_kernel_threads_moments_raise_nothing(dt: float, seed: int) -> None:
    loop = Loop(ToyHost(demand=dict(DEMAND), seed=seed, kernel=0.2), dt)
    for _ in range(60):
        loop.run(2)
        assert at_default(loop), (loop.now, loop.shares, loop.reasons)


@pytest.mark.parametrize("dt", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("hogs", [4, 16])
def test_nor_do_they_put_the_way_back_off(hogs: int, dt: float, seed: int) -> None:
    loop = Loop(ToyHost(demand=dict(DEMAND), seed=seed, kernel=0.2), dt)
    loop.run(12)
    loop.host.hogs = hogs
    loop.run(6)
    assert not at_default(loop)
    loop.host.hogs = 0
    loop.run(30)
    assert at_default(loop), (loop.shares, loop.reasons)


@pytest.mark.parametrize("hogs", [4, 8, 16])
def test_raised_in_the_first_period_and_served_within_three_seconds(hogs: int, seed: int) -> None:
    loop = Loop(ToyHost(demand=dict(DEMAND), seed=seed))
    loop.run(20)
    loop.host.hogs = hogs
    loop.run(1)
    assert all(share > 1024 for share in loop.shares.values())
    loop.run(3)
    assert loop.served > 0.95


def test_at_a_tenth_of_a_second_raised_within_three_periods(seed: int) -> None:
    for kernel in (0.0, 0.2):
        loop = Loop(ToyHost(demand=dict(DEMAND), seed=seed, kernel=kernel), dt=0.1)
        loop.run(20)
        loop.host.hogs = 8
        loop.run(0.3)
        assert all(share > 1024 for share in loop.shares.values())


def test_few_that_come_are_met_when_there_was_no_room_for_a_second(seed: int) -> None:
    loop = Loop(ToyHost(demand=dict(DEMAND), seed=seed), dt=0.1)
    loop.run(20)
    loop.host.hogs = 3
    loop.run(1.2)
    assert all(share > 1024 for share in loop.shares.values())


@pytest.mark.parametrize("hogs", [2, 4, 8, 16])
@pytest.mark.parametrize("threshold", [None, 100.0])
@pytest.mark.parametrize(("dt", "seed"), SHORT_AND_LONG)
def test_shares_settle(hogs: int, threshold: float | None, dt: float, seed: int) -> None:
    loop = Loop(ToyHost(demand=dict(DEMAND), seed=seed), dt)
    loop.run(10, threshold)
    loop.host.hogs = hogs
    loop.run(120, threshold)
    settled = len(loop.history)
    loop.run(600 if dt == 1 else 150, threshold)
    minute = round(60 / dt)
    for start in range(settled, len(loop.history) - minute, round(5 / dt)):
        window = loop.history[start : start + minute]
        for name in DEMAND:
            values = [shares[name] for shares in window]
            assert max(values) <= 1.1 * min(values), (name, start, loop.reasons[name])
    assert loop.served > 0.95


@pytest.mark.parametrize("hogs", [2, 4, 8, 16])
def test_under_a_saturating_load_three_periods_are_enough_however_few_the_neighbours_are(hogs: int, seed: int) -> None:
    """Fewer neighbours are waited for less, so a step by the need alone is smaller; and it goes no further."""
    loop = Loop(ToyHost(demand={name: d * 2.2 for name, d in DEMAND.items()}, seed=seed))
    loop.run(10)
    loop.host.hogs = hogs
    loop.run(3)
    early = loop.shares
    loop.run(60)
    assert all(0.9 * share <= early[name] <= share for name, share in loop.shares.items())


@pytest.mark.parametrize("hogs", [4, 16])
@pytest.mark.parametrize("scale", [1.0, 2.2])
def test_back_at_the_default_within_thirty_seconds(hogs: int, scale: float, seed: int) -> None:
    """Also under a saturating load, where the ledger takes all that the neighbour leaves."""
    loop = Loop(ToyHost(demand={name: d * scale for name, d in DEMAND.items()}, seed=seed))
    loop.run(10)
    loop.host.hogs = hogs
    loop.run(60)
    assert not at_default(loop)
    loop.host.hogs = 0
    loop.run(30)
    assert at_default(loop)


def test_an_idle_ledger_is_not_raised_beside_hogs(seed: int) -> None:
    loop = Loop(ToyHost(demand=dict.fromkeys(DEMAND, 0.005), hogs=16, seed=seed), load=0.0)
    loop.run(60)
    assert at_default(loop)
    assert "no commits" in loop.reasons["peer0"]


class Late(Loop):
    """A daemon that is started when nothing commits any more. A ledger with a load does once most of it is served."""

    def __init__(self, host: ToyHost, load: float) -> None:
        super().__init__(host, load=load)
        self.unheard, self.heard = Unheard(), False

    def run(self, seconds: float, threshold: float | None = None) -> None:
        for _ in range(round(seconds / self.dt)):
            self.now += self.dt
            delays, load, self.served = self.host.period(self.shares, self.dt)
            self.heard = self.heard or self.load * self.served > 70
            self.unheard = Unheard() if self.heard else self.unheard.step(self.now, delays.values(), load)
            for name, law in self.laws.items():
                age = 0.1 if self.heard else None
                seen = Seen(self.now, None, threshold, age, delays[name], load, self.unheard.presumed)
                self.laws[name], verdict = law.step(seen)
                self.reasons[name] = verdict.reason
            self.history.append(self.shares)


def test_what_starved_too_much_to_commit_since_before_the_start_is_raised_and_keeps_its_shares(seed: int) -> None:
    loop = Late(ToyHost(demand=dict(DEMAND), hogs=64, seed=seed), load=100.0)
    assert at_default(loop)
    loop.run(3)
    assert not at_default(loop)  # most of its components wait at once: nobody waits for a commit
    loop.run(12)
    assert loop.heard
    loop.run(60)
    assert loop.served > 0.7  # a tenth of that at the default
    assert all(share > 1024 for share in loop.shares.values())


def test_an_idle_ledger_that_never_committed_is_not_raised_beside_hogs(seed: int) -> None:
    loop = Late(ToyHost(demand=dict.fromkeys(DEMAND, 0.004), hogs=64, seed=seed), load=0.0)
    for _ in range(120):
        loop.run(1)
        assert at_default(loop)


def test_when_sending_stops_the_raise_stays_for_the_next_load_and_ends_with_the_neighbour(seed: int) -> None:
    loop = Loop(ToyHost(demand=dict(DEMAND), hogs=8, seed=seed))
    loop.run(30)
    assert not at_default(loop)
    loop.load, loop.host.demand = 0.0, dict.fromkeys(DEMAND, 0.005)
    loop.run(15)
    enough = loop.shares
    assert not at_default(loop)
    loop.run(120)
    assert loop.shares == enough
    loop.load, loop.host.demand = 100.0, dict(DEMAND)
    loop.run(1)
    assert loop.served > 0.95
    loop.load, loop.host.demand = 0.0, dict.fromkeys(DEMAND, 0.005)
    loop.run(30)
    loop.host.hogs = 0
    loop.run(30)
    assert at_default(loop)


def test_a_load_that_paused_does_not_put_off_the_way_back(seed: int) -> None:
    """A share let go of since nobody sent says nothing about what a release beside the neighbour would do."""
    loop = Loop(ToyHost(demand=dict(DEMAND), hogs=8, seed=seed))
    for _ in range(4):
        loop.load, loop.host.demand = 100.0, dict(DEMAND)
        loop.run(20)
        assert not at_default(loop)
        loop.load, loop.host.demand = 0.0, dict.fromkeys(DEMAND, 0.005)
        loop.run(15)
    loop.load, loop.host.demand = 100.0, dict(DEMAND)
    loop.run(20)
    assert not at_default(loop)
    loop.host.hogs = 0
    loop.run(30)
    assert at_default(loop)


def test_a_neighbour_that_comes_and_goes_is_met_each_time() -> None:
    loop = Loop(ToyHost(demand=dict(DEMAND)))
    for _ in range(4):
        loop.host.hogs = 8
        loop.run(20)
        assert loop.served > 0.95
        loop.host.hogs = 0
        loop.run(40)
        assert at_default(loop)
