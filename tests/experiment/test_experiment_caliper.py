"""What is made of what Caliper told of a round, while it ran and at its end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qioi.experiment.caliper_driver import Caliper, Progress, caliper_result, starved
from qioi.experiment.drivers import Drive, client_metrics
from qioi.experiment.spec import Timing
from qioi.experiment.system import LoadSpec
from qioi.processes.errors import BusyError, LabError

ENTRY: dict[str, Any] = {
    "label": "transfer",
    "succeeded": 1000,
    "failed": 2,
    "goodput": 77.0,
    "latency_ms": {"mean": 5.5, "p50": 5, "p95": 9, "p99": 12, "max": 30},
    "failure": None,
    "errors": [],
}
TIMING = Timing(warmup=4.0, duration=10.0, cooldown=2.0)


def told(*points: tuple[float, int]) -> list[Progress]:
    """Progress by (epoch seconds, succeeded so far), of a round in which what is submitted succeeds at once."""
    return [Progress(at, count, count) for at, count in points]


def test_warm_up_and_cool_down_are_cut_off_caliper() -> None:
    # 10 tps for the first 4 s, then 100, and 10 again in the cool-down.
    counts = [0, 20, 40, 240, 440, 640, 840, 1040, 1060]
    points = [(98.0 + 2 * index, count) for index, count in enumerate(counts)]
    found = caliper_result(ENTRY, told(*points), TIMING)
    assert (found.start, found.end) == (104.0, 114.0)
    assert 80 < found.figures.throughput <= 100
    assert (found.figures.p95, found.figures.failed) == (9.0, 2)
    assert found.figures.throughput == pytest.approx(100, rel=0.19)
    assert dict(found.throughput)[1.0] == 100


def test_a_round_begins_when_something_is_submitted_however_late_it_succeeds() -> None:
    """Beside neighbours the window was cut from the first success on, and lay behind the round's end."""
    progress = [Progress(98.0, 0, 0), Progress(100.0, 40, 0), Progress(110.0, 400, 1), Progress(116.0, 600, 7)]
    found = caliper_result(ENTRY, progress, TIMING)
    assert (found.start, found.end) == (104.0, 114.0)
    assert found.figures.throughput == pytest.approx(7 / 16)


def test_what_caliper_forgets_of_a_worker_that_has_ended_is_not_taken_back() -> None:
    """Its progress is of the workers that still run: 2 s before a round's end it may be half of what it was."""
    counts = [0, 20, 40, 240, 440, 640, 840, 420]
    points = [(98.0 + 2 * index, count) for index, count in enumerate(counts)]
    found = caliper_result(ENTRY, told(*points), TIMING)
    assert min(value for _, value in found.throughput) >= 0
    assert found.figures.throughput == pytest.approx(100, rel=0.19)


@pytest.mark.parametrize(
    ("points", "tps"),
    [
        ([(98.0, 0), (100.0, 50), (120.0, 1050)], 50.0),
        ([(98.0, 0), (100.0, 50), (109.0, 700), (120.0, 1050)], 50.0),
        ([(98.0, 0), (100.0, 50), (109.0, 600), (109.0, 700), (120.0, 1050)], 50.0),  # told at once
    ],
)
def test_counts_around_the_window_stand_for_those_that_caliper_had_no_time_to_tell(
    points: list[tuple[float, int]], tps: float
) -> None:
    """Not the whole round's goodput, of which warm-up and cool-down are a part."""
    assert caliper_result(ENTRY, told(*points), TIMING).figures.throughput == pytest.approx(tps)


@pytest.mark.parametrize("points", [[], [(100.0, 50)], [(100.0, 50), (102.0, 90)], [(100.0, 50), (109.0, 700)]])
def test_a_round_whose_progress_is_not_known_is_measured_again(points: list[tuple[float, int]]) -> None:
    with pytest.raises(BusyError, match="Caliper told"):
        caliper_result(ENTRY, told(*points), TIMING)


STARVED = {**ENTRY, "succeeded": 0, "failed": 40, "goodput": None, "latency_ms": None, "errors": [{"count": 40}]}


def test_a_round_that_committed_nothing_is_a_finding() -> None:
    found = caliper_result(STARVED, told((98.0, 0), (100.0, 0)), TIMING)
    assert (found.start, found.end) == (102.0, 112.0)
    assert client_metrics(found.figures) == {"throughput": 0.0, "failed": 40.0, "goodput": 0.0}


@pytest.mark.parametrize(
    ("status", "changed", "is_starved"),
    [
        (0, {}, True),
        (0, {"succeeded": 1}, False),
        (0, {"succeeded": None, "failed": None}, False),  # it did not run to its end
        (0, {"failed": 0}, False),  # it sent nothing
        (0, {"failure": "no peers"}, False),
        (1, {}, False),
    ],
)
def test_a_round_that_failed_is_not_one_that_committed_nothing(
    status: int, changed: dict[str, Any], is_starved: bool
) -> None:
    assert starved({"exit_status": status, "rounds": [{**STARVED, **changed}]}) == is_starved


def test_a_round_without_latencies_that_has_committed_is_an_error() -> None:
    with pytest.raises(LabError, match="transfer has no latencies: no peers"):
        caliper_result({**ENTRY, "latency_ms": None, "failure": "no peers"}, told((1.0, 5)), TIMING)


def test_a_round_has_its_repeats_seed_and_is_as_long_as_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def start(command: list[str], **_: object) -> Any:
        given.extend(command)
        return SimpleNamespace(poll=lambda: 0)

    monkeypatch.setattr("qioi.experiment.caliper_driver.Child", start)
    spec = LoadSpec(driver="caliper", benchmark="simple", round="transfer", clients=2)
    lab: Any = SimpleNamespace(directory=tmp_path)
    with ExitStack() as stack:
        Caliper(stack, Drive(lab, spec, TIMING.model_copy(update={"cooldown": 2.4}), 1729, tmp_path))
    assert given[given.index("--seed") + 1] == "1729"
    assert given[given.index("--duration") + 1] == "17"  # of 16.4 s; in 16 its end would be cut off
