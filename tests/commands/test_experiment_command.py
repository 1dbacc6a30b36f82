"""`qioi experiment`: the command that a run keeps, how it ends, and what it refuses."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from toy_experiment import DOCUMENT, filled, load, row

from qioi.commands.experiment import TOO_NOISY, Asked, check_folders, command, plan_of
from qioi.commands.experiment_steps import noted
from qioi.experiment import catalogue
from qioi.experiment.plan import make_plan
from qioi.experiment.session import Session
from qioi.experiment.store import Store

PLAIN = Asked()


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        ({}, ""),
        ({"standard": True, "paper_size": True}, " --standard --paper-size"),
        ({"arms": ("adaptive",), "only_networks": ("a", "b")}, " --arm adaptive --network a --network b"),
        ({"loads": ("fixed",), "smoke": True}, " --smoke --load fixed"),
        (
            {"repeats": 5, "warmup": 0.5, "duration": 12.0, "seed": 20240101},
            " --repeats 5 --warmup 0.5 --duration 12 --seed 20240101",
        ),
        ({"seed": 10**15}, " --seed 1000000000000000"),
        ({"networks": {"system": "fabric"}, "binaries": "/home/me/fabric"}, " --system fabric --binaries DIR"),
        ({"folder": Path("/mnt/nvme/lab")}, " --dir DIR"),
    ],
)
def test_it_has_what_decides_what_is_measured_and_no_place_of_this_machine(
    changed: dict[str, object], options: str
) -> None:
    asked = replace(PLAIN, **changed)  # type: ignore[arg-type]
    assert asked.command(catalogue.find("fig_8")) == f"qioi experiment run fig_8{options}"


def test_a_run_that_fails_for_want_of_room_says_so_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "begun", True)
    monkeypatch.setattr(Store, "keep", full)
    with pytest.raises(KeyboardInterrupt), noted(Store(tmp_path), "qioi experiment run fig_8"):
        raise KeyboardInterrupt
    with pytest.raises(OSError, match="No space"), noted(Store(tmp_path), "qioi experiment run fig_8"):
        pass


def test_a_run_that_fails_says_so_where_its_run_file_is_spoilt_too(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(KeyboardInterrupt), noted(Store(tmp_path), "qioi experiment run fig_8"):
        raise KeyboardInterrupt


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A file whose experiment has a table alone, which is soon drawn."""
    document: dict[str, Any] = copy.deepcopy(DOCUMENT)
    document["figures"] = document["figures"][:1]
    load(document, tmp_path)
    return tmp_path / "toy.yaml"


@pytest.mark.parametrize(("noisy", "status"), [(0, 0), (3, 0), (4, TOO_NOISY), (6, TOO_NOISY)])
def test_a_run_with_too_few_quiet_repeats_says_so_and_ends_with_a_status_of_its_own(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noisy: int, status: int
) -> None:
    """Nothing was said, and whoever looked at the status took it for measured."""

    def measured(session: Session, *, resume: bool) -> None:
        rows = [row(100, 50, 100, steal=9.0 if number < noisy else 0.0) for number in range(6)]
        filled(session._store, session._plan, rows)

    monkeypatch.setattr(Session, "run", measured)
    monkeypatch.setattr("qioi.commands.experiment.check_host", lambda *_: None)
    result = CliRunner().invoke(
        command, ["run", str(toy), "--output", str(tmp_path / "run"), "--dir", str(tmp_path / "lab")]
    )
    assert result.exit_code == status, result.output
    last = result.output.splitlines()[-1]
    told = f"not to be trusted, as the machine was too busy: toy ({6 - noisy} quiet repeats of 3); without its folder"
    assert last.startswith(told) == (status != 0)
    assert (tmp_path / "run" / "report.html").exists()


def test_a_folder_of_something_else_is_refused_before_anything_is_made(toy: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    result = CliRunner().invoke(command, ["run", str(toy), "--output", str(tmp_path / "run"), "--dir", str(tmp_path)])
    refusal = f"Error: {tmp_path} is not empty and no lab's folder; name an empty or a new one with --dir\n"
    assert (result.exit_code, result.output) == (1, refusal)
    assert not (tmp_path / "run").exists()


def test_what_brings_no_lab_up_asks_nothing_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    asked = Asked(output=tmp_path / "run", folder=tmp_path)
    check_folders([plan_of(catalogue.find("rdb_fig_7"), asked)], asked)


@pytest.mark.parametrize("asked", [["fig_8"], ["kinds", "--network", "block"]])
def test_binaries_that_nothing_would_use_are_refused(tmp_path: Path, asked: list[str]) -> None:
    words = ["run", *asked, "--output", str(tmp_path / "run"), "--binaries", str(tmp_path)]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2, result.output
    assert "--binaries is of real Fabric, and no network that would be measured is" in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("ours", [True, False])
def test_the_index_is_written_once_however_many_runs_are_drawn(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    parent = Path("results", "experiments") if ours else Path("elsewhere")
    plan = make_plan(catalogue.load(toy), 2)
    for name in ("one", "two"):
        filled(Store(parent / name / "toy"), plan, [row(100, 50, 100)])
    words = [] if ours else [str(parent / name) for name in ("one", "two")]
    said = CliRunner().invoke(command, ["report", *words]).output.splitlines()
    assert [line.partition(":")[0] for line in said] == ["report", "report", "index"]


def test_a_run_without_a_finished_repeat_is_passed_over_with_a_word(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan, parent = make_plan(catalogue.load(toy), 2), tmp_path / "results" / "experiments"
    for name, rows in (("begun", []), ("one", [row(100, 50, 100)])):
        filled(Store(parent / name / "toy"), plan, rows)
    result = CliRunner().invoke(command, ["report"])
    first, *others = result.output.splitlines()
    assert (result.exit_code, first) == (0, f"{parent / 'begun'}: no finished repeat: passed over")
    assert [line.partition(":")[0] for line in others] == ["report", "index"]
