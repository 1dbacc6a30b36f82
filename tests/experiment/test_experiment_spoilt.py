"""A run's folder that is not as it was left: each time one line says which file, and what to do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from toy_experiment import HOST, filled, row

from qioi.commands.experiment import command
from qioi.experiment.plan import Plan
from qioi.experiment.store import Store, lock_name
from qioi.lab.lock import exclusive


def edited(file: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(file.read_text())
    edit(document)
    file.write_text(json.dumps(document))


def report(folder: Path) -> str:
    """Have the page drawn, which must fail, and give the one line that says why."""
    result = CliRunner().invoke(command, ["report", str(folder)])
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    (line,) = result.output.splitlines()
    return line


@pytest.fixture
def run(plan: Plan, tmp_path: Path) -> Path:
    filled(Store(tmp_path / "run" / "toy"), plan, [row(100, 50, 100)] * 3)
    return tmp_path / "run"


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "null"])
def test_a_run_file_that_is_none(run: Path, text: str) -> None:
    file = run / "toy" / "run.json"
    file.write_text(text)
    assert str(file) in report(run)


@pytest.mark.parametrize(
    "edit",
    [
        lambda run: run["spec"].update(unheard_of=1),
        lambda run: run["spec"]["loads"]["slow"].pop("rate"),
        lambda run: run["timing"].update(duration="long"),
        lambda run: run["arms"][0].pop("name"),
        lambda run: run.pop("spec"),
        lambda run: run.pop("maxima"),
        lambda run: run.pop("host"),
        lambda run: run["host"].pop("versions"),
        lambda run: run.update(repeats="three"),
        lambda run: run.update(arms=[]),
    ],
)
def test_a_run_file_of_another_version(run: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    file = run / "toy" / "run.json"
    edited(file, edit)
    assert str(file) in report(run)


@pytest.mark.parametrize(
    "edit",
    [
        lambda repeat: repeat["cells"].pop("tiny.slow.alone"),
        lambda repeat: repeat["cells"]["tiny.slow.alone"].pop("metrics"),
        lambda repeat: repeat["cells"]["tiny.slow.alone"].update(metrics=None),
        lambda repeat: repeat["cells"]["tiny.slow.alone"]["metrics"].update(throughput="many"),
        lambda repeat: repeat["cells"]["tiny.slow.alone"]["metrics"].pop("throughput"),
        lambda repeat: repeat["cells"]["tiny.slow.s1"].update(series=None),
        lambda repeat: repeat.update(noise=None),
        lambda repeat: repeat.pop("number"),
    ],
)
def test_a_repeat_that_lacks_something(run: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    file = run / "toy" / "repeats" / "2" / "repeat.json"
    edited(file, edit)
    line = report(run)
    assert str(file) in line
    assert "--resume" in line  # it can be measured again


def test_a_repeat_that_is_cut_off(run: Path) -> None:
    file = run / "toy" / "repeats" / "2" / "repeat.json"
    file.write_text(file.read_text()[:100])
    assert str(file) in report(run)


def test_what_somebody_else_put_beside_the_repeats(run: Path, plan: Plan) -> None:
    """Notes and copies are no repeats: they are neither read nor removed."""
    repeats = run / "toy" / "repeats"
    (repeats / "notes.txt").write_text("mine")
    (repeats / "2.kept").mkdir()
    (repeats / "2.kept" / "repeat.json").write_text("{}")
    (repeats / "my.failed").mkdir()
    (repeats / "4").mkdir()
    store = Store(run / "toy")
    store.resume(plan, {}, HOST)
    store.fresh(4)
    assert [repeat.number for repeat in store.repeats()] == [1, 2, 3]
    assert sorted(path.name for path in repeats.iterdir()) == [
        "1",
        "2",
        "2.kept",
        "3",
        "4",
        "4.failed",
        "my.failed",
        "notes.txt",
    ]


def asked(*words: str) -> str:
    """Ask for a run that must be refused before anything starts, and give the lines that say why."""
    result = CliRunner().invoke(command, ["run", *words])
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    return result.output


def test_a_folder_without_a_run_is_not_gone_on_with(tmp_path: Path) -> None:
    said = asked("fig_3", "table_5", "--resume", str(tmp_path))
    assert f"{tmp_path} holds no run of fig_3, table_5" in said
    assert not list(tmp_path.iterdir())


def test_every_folder_is_looked_at_before_anything_starts(run: Path, tmp_path: Path) -> None:
    """The last one too: its turn comes after hours."""
    toy = str(tmp_path / "toy.yaml")
    said = asked("fig_3", toy, "--output", str(run))
    assert f"{run / 'toy'} is not empty; --resume goes on with it" in said
    assert not (run / "fig_3").exists()
    said = asked("fig_3", toy, "--resume", str(run), "--seed", "7")
    assert "is a run of something else" in said
    assert "seed" in said


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system with hardly any room."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_disk_that_is_full(small: Path, plan: Plan) -> None:
    """What it has no room for stays as it was drawn before, and nothing half-written is beside it."""
    filled(Store(small / "run" / "toy"), plan, [row(100, 50, 100)] * 3)
    (pictures := small / "run" / "toy" / "pictures").mkdir()
    ends = {"svg": b"</svg>\n", "png": b"IEND\xaeB`\x82"}
    drawn = [pictures / f"{stem}.{kind}" for stem in ("2-bars", "3-lines", "4-time", "5-stack") for kind in ends]
    for file in drawn:
        file.write_bytes(ends[file.suffix[1:]])
    assert "No space left on device" in report(small / "run")
    assert all(file.read_bytes().endswith(ends[file.suffix[1:]]) for file in drawn)
    assert {file.suffix for file in pictures.iterdir()} <= {".svg", ".png"}


def test_a_run_at_which_another_command_is_at_work_is_left_alone(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repeat that is being measured is not finished, and would be put aside."""
    (live := run / "toy" / "repeats" / "4").mkdir()
    edited(run / "toy" / "run.json", lambda document: document.update(repeats=4))
    monkeypatch.setattr("qioi.lab.lock.PATIENCE", 0.0)
    words = ["run", str(tmp_path / "toy.yaml"), "--repeats", "4", "--resume", str(run)]
    with exclusive(lock_name(run), "not busy"):
        result = CliRunner().invoke(command, words)
        drawn = CliRunner().invoke(command, ["report", str(run)])
    assert result.output == f"Error: another command is at work on this run, {run}; wait for it to end\n"
    assert drawn.output == result.output
    assert live.is_dir()
