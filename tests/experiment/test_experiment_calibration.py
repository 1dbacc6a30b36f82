"""The machine's speed beside each repeat."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from toy_experiment import HOST, row

from qioi.experiment.calibration import Calibration, calibrate, speed
from qioi.experiment.method import method
from qioi.experiment.plan import Plan
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary
from qioi.processes.errors import LabError

FAST = Calibration(50.0, 25.0, 200.0, 20.0, 375.0)
SLOW = replace(FAST, verify_us=75.25)


@pytest.mark.slow
def test_what_is_measured_is_the_real_machine(tmp_path: Path) -> None:
    found = calibrate(tmp_path)
    assert all(value > 0 for value in asdict(found).values())
    assert list(tmp_path.iterdir()) == []


def test_why_the_machine_could_not_be_measured_is_said(tmp_path: Path) -> None:
    """As on a disk that is full."""
    folder = tmp_path / "gone"
    reason = rf"^the machine's speed could not be measured: .*{folder}.*no such file"
    with pytest.raises(LabError, match=reason) as said:
        calibrate(folder)
    assert "\n" not in str(said.value)


def test_the_page_says_the_least_and_the_most(plan: Plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "toy")
    store.begin(plan, {}, HOST)
    for number, calibration in enumerate((FAST, SLOW, FAST), 1):
        store.folder(number).mkdir(parents=True)
        store.finish(number, row(100, 50, 100), judged=True, calibration=calibration)
    assert [repeat.calibration for repeat in store.repeats()] == [FAST, SLOW, FAST]
    said = dict(method(Summary(store)))["Machine's speed"]
    assert said == "P-256 verification 50 .. 75.2 us, signature 25 us, fsync 200 us, wake-up 20 us"
    assert speed([FAST]).startswith("P-256 verification 50 us, ")


def test_the_speed_in_a_repeat_that_was_left_out_is_left_out(plan: Plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "toy")
    store.begin(plan, {}, HOST)
    for number, (calibration, steal) in enumerate(((FAST, 0.0), (SLOW, 20.0)), 1):
        store.folder(number).mkdir(parents=True)
        store.finish(number, row(100, 50, 100, steal=steal), judged=True, calibration=calibration)
    assert Summary(store).calibrations == [FAST]


def test_repeats_of_earlier_versions_have_none(plan: Plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "toy")
    store.begin(plan, {}, HOST)
    store.folder(1).mkdir(parents=True)
    store.finish(1, row(100, 50, 100), judged=True)
    file = store.folder(1) / "repeat.json"
    earlier = json.loads(file.read_text())
    del earlier["calibration"]
    file.write_text(json.dumps(earlier))
    assert store.repeats()[0].calibration is None
    assert "Machine's speed" not in dict(method(Summary(store)))
