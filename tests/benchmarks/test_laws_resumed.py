"""A run of the laws that was interrupted is gone on with in the same folder: what is there is not measured again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import pytest
from bench_laws import Laws, Sent
from laws_figures import ALONE, CONDITIONS, Row

from qioi.lab.arms import Arm

NAMES = ("nothing", "fixed")
NOBODY: Any = None


class MeasuredError(Exception):
    """Something was measured: its arm."""


class NoRunner:
    """Measures nothing, and says what it was to measure."""

    def __init__(self, *_where: object) -> None:
        pass

    def run(self, arm: Arm) -> NoReturn:
        raise MeasuredError(arm.name)


@pytest.fixture
def laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laws:
    """Give a run of which all figures are there, and no network to measure others on."""
    monkeypatch.setattr("bench_laws.Runner", NoRunner)
    for name in (ALONE, *NAMES):
        row = Row("saturating", 4, 1, name, 500.0, 3.0, 6.0, 7.0, 0, 0.2, 1.0, 0.4, 0.0, 1.5, 0.0, None, 0.0, 9.0, 0.0)
        file = tmp_path / f"saturating-{0 if name == ALONE else 4}-repeat1" / name / "row.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(asdict(row)))
    (tmp_path / "maximum.json").write_text('{"tps": 1500.0}')
    return Laws(NOBODY, NOBODY, tmp_path, Sent(10.0, None, None, 64, 0.7))


def test_what_is_there_is_not_measured_again(laws: Laws) -> None:
    assert laws.maximum(None) == 1500.0
    laws.load("saturating", [4], 1, [CONDITIONS[name] for name in NAMES], 1500.0)


def test_what_is_missing_is_measured(laws: Laws, tmp_path: Path) -> None:
    wanted = [CONDITIONS[name] for name in NAMES]
    (tmp_path / "saturating-4-repeat1" / "nothing" / "row.json").unlink()
    with pytest.raises(MeasuredError, match="nothing"):
        laws.load("saturating", [4], 1, wanted, 1500.0)
    with pytest.raises(MeasuredError, match="alone"):
        laws.load("saturating", [4], 2, wanted, 1500.0)
