"""A run that was interrupted is gone on with in the same folder: whole repeats are not measured again.

Each run has a network of its own, so an unfinished repeat of an earlier run is not completed on this one.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import bench_laws
import click
import pytest
from bench_ends import Ends
from bench_laws import Laws
from click.testing import CliRunner
from fixed_load import Found, keep_load, kept_load
from laws_asked import Sent, system_of
from laws_figures import ALONE, CONDITIONS, Row

from qioi.lab.arms import Arm

NAMES = ("nothing", "fixed")
WANTED = [CONDITIONS[name] for name in NAMES]
SENT = Sent(10.0, None, None, 64, 0.7)
SYSTEM = system_of(None, {"system": "ledger", "binaries": None, "like_fabric": False})
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
        row = Row("saturating", 4, 1, name, 500.0, 3.0, 6.0, 7.0, 0, 0.2, 1.0, 0.4, 0.0, 1.5, 0.0, None, 0, 9.0, 0, 0.0)
        file = tmp_path / f"saturating-{0 if name == ALONE else 4}-repeat1" / name / "row.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(asdict(row)))
    (tmp_path / "maximum.json").write_text('{"tps": 1500.0}')
    return Laws(NOBODY, NOBODY, tmp_path, SENT, SYSTEM)


def test_a_whole_repeat_is_not_measured_again(laws: Laws) -> None:
    assert laws.maximum(None) == 1500.0
    laws.repeat(1, ["saturating"], [4], WANTED, 1500.0)


def test_repeats_are_added(laws: Laws, tmp_path: Path) -> None:
    with pytest.raises(MeasuredError, match="alone"):
        laws.repeat(2, ["saturating"], [4], WANTED, 1500.0)
    assert len(list(tmp_path.glob("*-repeat1/*/row.json"))) == 3


@pytest.mark.parametrize("lacking", [ALONE, *NAMES])
def test_a_repeat_that_lacks_something_is_begun_anew(laws: Laws, tmp_path: Path, lacking: str) -> None:
    (file,) = tmp_path.glob(f"saturating-*-repeat1/{lacking}/row.json")
    file.unlink()
    for repeat in (1, 11):
        keep_load(Found(500.0, [], 0.7), tmp_path, repeat)
        speed = tmp_path / f"undisturbed-4-repeat{repeat}" / "speed.json"
        speed.parent.mkdir()
        speed.write_text('{"events_per_core": 5000}')
    with pytest.raises(MeasuredError, match="alone"):
        laws.repeat(1, ["saturating"], [4], WANTED, 1500.0)
    assert not list(tmp_path.glob("*-repeat1/*.json")), "its load, and sysbench's speed, are of the other run, too"
    assert not list(tmp_path.glob("*-repeat1/*/row.json"))
    assert kept_load(tmp_path, 1) is None
    assert kept_load(tmp_path, 11) is not None
    assert len(list(tmp_path.glob("*-repeat11/speed.json"))) == 1


def test_a_folder_of_other_conditions_is_left_alone(laws: Laws, tmp_path: Path) -> None:
    laws.repeat(1, ["saturating"], [4], WANTED, 1500.0)
    for loads, counts, wanted in (
        (["fixed"], [4], WANTED),
        (["saturating"], [4, 8], WANTED),
        (["saturating"], [4], [*WANTED, CONDITIONS["adaptive"]]),
    ):
        with pytest.raises(click.UsageError, match="of other loads or conditions: name another --output"):
            laws.repeat(1, loads, counts, wanted, 1500.0)
    assert len(list(tmp_path.glob("*-repeat1/*/row.json"))) == 3


@pytest.mark.parametrize(
    ("sent", "system", "other"),
    [
        (SENT._replace(duration=18.0), SYSTEM, "duration"),
        (SENT._replace(warmup=8.0, come=0.3), SYSTEM, "warmup, come"),
        (SENT._replace(clients=128), SYSTEM, "clients"),
        (SENT._replace(busy=0.6), SYSTEM, "busy"),
        (SENT, {**SYSTEM, "like_fabric": True}, "like_fabric"),
        (SENT, {"up": "/run/lab", "network": ["block"]}, "system, like_fabric, up, network"),
    ],
)
def test_a_folder_of_another_run_is_left_alone(
    laws: Laws, tmp_path: Path, sent: Sent, system: dict[str, Any], other: str
) -> None:
    laws.repeat(1, ["saturating"], [4], WANTED, 1500.0)
    with pytest.raises(click.UsageError, match=f"has repeats of other {other}: name another --output"):
        Laws(NOBODY, NOBODY, tmp_path, sent, system).repeat(2, ["saturating"], [4], WANTED, 1500.0)


def test_a_folder_of_another_maximum_is_left_alone(laws: Laws, tmp_path: Path) -> None:
    assert laws.maximum(1500.0) == 1500.0
    with pytest.raises(click.UsageError, match="has a maximum of 1500 tps: name another --output"):
        laws.maximum(1000.0)
    assert json.loads((tmp_path / "maximum.json").read_text()) == {"tps": 1500.0}


def test_a_maximum_is_kept_once_the_folder_is_known_to_be_of_the_same_run(laws: Laws, tmp_path: Path) -> None:
    file = tmp_path / "maximum.json"
    file.unlink()
    most = laws.maximum(1000.0)
    (tmp_path / "figures.json").write_text('{"duration": 18.0}')
    with pytest.raises(click.UsageError, match="has repeats of other"):
        laws.repeat(1, ["saturating"], [4], WANTED, most)
    assert not file.exists()
    (tmp_path / "figures.json").unlink()
    laws.repeat(1, ["saturating"], [4], WANTED, most)
    assert laws.maximum(None) == 1000.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--come", "10"], "--come 10: accepted is a time within the load, from -8 to before 10"),
        (["--load", "fixed", "--come", "-13.5"], "--come -13.5: accepted is a time within the load, from -13 to"),
        (["--warmup", "0", "--come", "-1"], "--come -1: accepted is a time within the load, from 0 to before 10"),
        (["--maximum", "0"], "Invalid value for '--maximum'"),
        (["--like-fabric", "--fabric", "."], "--fabric: accepted without --like-fabric"),
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    done = CliRunner().invoke(bench_laws.main, [*options, "--output", str(tmp_path)])
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_no_warm_up_is_none_and_not_the_usual_one(laws: Laws, tmp_path: Path) -> None:
    none = Laws(NOBODY, NOBODY, tmp_path, SENT._replace(warmup=0.0), SYSTEM)
    assert [one._plan("saturating", 1, 1500.0).warmup for one in (laws, none)] == [8.0, 0.0]


def test_a_folder_of_an_earlier_version_is_left_alone(laws: Laws, tmp_path: Path) -> None:
    (tmp_path / "figures.json").write_text('["saturating-0-repeat/alone/row.json"]')
    with pytest.raises(click.UsageError, match="does not say of what its repeats are: name another --output"):
        laws.repeat(1, ["saturating"], [4], WANTED, 1500.0)


def test_a_folder_of_another_load_is_left_alone(laws: Laws, tmp_path: Path) -> None:
    keep_load(Found(500.0, [], 0.6), tmp_path, 1)
    with pytest.raises(click.UsageError, match="has a load of 60 %: name another --output"):
        laws.repeat(1, ["fixed"], [4], WANTED, 1500.0)
    assert len(list(tmp_path.glob("*-repeat1/*/row.json"))) == 3


def test_ends_are_gone_on_with_by_whole_repeats_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench_ends.Runner", NoRunner)
    ends = Ends(NOBODY, NOBODY, tmp_path, SENT, SYSTEM)
    files = [tmp_path / "repeat1" / name / "row.json" for name in (ALONE, "nothing", "highest")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    ends.ways(1, ("nothing", "highest"), 1500.0)
    files[-1].unlink()
    keep_load(Found(500.0, [], 0.7), tmp_path, 1)
    monkeypatch.setattr(ends, "rate", lambda _repeat, _maximum: 500.0)
    with pytest.raises(MeasuredError, match="alone"):
        ends.ways(1, ("nothing", "highest"), 1500.0)
    assert [file.exists() for file in files] == [False] * 3
