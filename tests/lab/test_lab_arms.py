"""When the interferers of an arm come, and what of their work counts, on a clock of the test's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qioi.interference import Report
from qioi.lab.arms import Arm, Evidence, Runner, condense
from qioi.lab.figures import LoadFigures
from qioi.lab.load import LoadPlan, LoadResult
from qioi.lab.machine import Snapshot
from qioi.lab.sampler import Sample, window
from qioi.model import Role
from qioi.processes.errors import BusyError, LabError

#: Figures of a load, which no test looks at.
NOTHING = LoadFigures(
    offered=5.0, throughput=5.0, mean=1.0, p50=1.0, p95=1.0, p99=1.0, maximum=1.0, committed=50, failed=0
)
#: When the load begins to send, which nobody sees before.
SENDING = 0.2


class Clock:
    """A time that passes in sleep alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds + 0.001


class Toy:
    """Stands for whatever takes part in an arm, and notes on the clock when it was started and sampled."""

    names = ("sysbench1",)

    def __init__(self, clock: Clock, plan: LoadPlan) -> None:
        self._clock, self._plan = clock, plan
        self.started: list[float] = []
        self.sampled: list[float] = []
        self.samples: list[Sample] = []
        self.flushes: list[Any] = []

    def __enter__(self) -> Toy:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    prepare = stop = check = close = lambda _self: None

    def running(self) -> bool:
        return self._clock.now < SENDING + self._plan.warmup + self._plan.duration + self._plan.cooldown

    def began(self) -> float | None:
        return SENDING if self._clock.now >= SENDING else None

    def start(self) -> None:
        self.started.append(self._clock.now)

    def sample(self) -> None:
        self.sampled.append(self._clock.now)

    def result(self) -> LoadResult:
        start = SENDING + self._plan.warmup
        return LoadResult(NOTHING, start, start + self._plan.duration, (), ())


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, arm: Arm) -> Toy:
    """Run an arm up to its samples, which are none."""
    clock = Clock()
    toy = Toy(clock, arm.load)
    monkeypatch.setattr("qioi.lab.arms.time", clock)
    for name in ("Sysbench", "LoadRun", "Sampler", "FlushProbe"):
        monkeypatch.setattr(f"qioi.lab.arms.{name}", lambda *_words: toy)
    lab: Any = SimpleNamespace(tree=SimpleNamespace(group=str), directory=folder, check=lambda: None)
    network: Any = SimpleNamespace(nodes=(), mode="block")
    with pytest.raises(LabError) as caught:
        Runner(lab, network, folder).run(arm)
    if "samples" not in str(caught.value):
        raise caught.value
    return toy


@pytest.mark.parametrize("warmup", [2.0, 3.0, 4.4, 20.0])
def test_interferers_come_when_they_are_to_and_not_with_the_next_sample(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, warmup: float
) -> None:
    arm = Arm("together", "together", LoadPlan(2, warmup, rate=5), sysbench=1)
    toy = run(monkeypatch, tmp_path, arm)
    assert toy.started == [pytest.approx(SENDING + arm.arrival, abs=0.01)]
    apart = [after - before for before, after in zip(toy.sampled, toy.sampled[1:], strict=False)]
    assert apart == [pytest.approx(0.5, abs=0.01)] * len(apart), "their coming brings no sample of its own"


class Late(Arm):
    """An arm whose interferers come far into the load."""

    @property
    def arrival(self) -> float:
        return 3.3


@pytest.mark.parametrize("cooldown", [0.0, 5.0])
def test_an_arm_whose_interferers_did_not_come_is_none_beside_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cooldown: float
) -> None:
    plan = LoadPlan(2, 1, rate=5, cooldown=cooldown)
    with pytest.raises(BusyError, match=r"together: the window ended before the neighbours came, 3\.3 s into the load"):
        run(monkeypatch, tmp_path, Late("together", "together", plan, sysbench=1))
    run(monkeypatch, tmp_path, Late("alone", "alone", plan))


@pytest.mark.parametrize(("came", "part"), [(None, 1.0), (95.0, 1.0), (105.0, 0.5)])
def test_work_and_cpu_of_interferers_are_of_the_whole_window(came: float | None, part: float) -> None:
    since = came or 90.0
    samples = [
        Sample(
            at, {"peer": 1024}, {"peer": 0.0, "sysbench1": 0.8 * max(0.0, at - since)}, {}, Snapshot(at, 0.0, 0.0, 0.0)
        )
        for at in map(float, range(90, 111))
    ]
    reports = [Report("sysbench1", float(at), 400.0) for at in range(90, 111) if at > since]
    arm = Arm("together", "together", LoadPlan(10, 10, rate=5), sysbench=1)
    load = LoadResult(NOTHING, 100.0, 110.0, (), ())
    cut = window(samples, 90.0, 100.0, 110.0)
    evidence = Evidence(arm, {"peer": Role.PEER}, load, cut, ["sysbench1"], reports, [], came)
    its = condense(evidence, 2).interferer
    assert (its.events, its.cores) == (pytest.approx(400 * part), pytest.approx(0.8 * part))
    assert its.events_per_core == pytest.approx(500.0)
