"""Every other repeat has its conditions in the opposite order: what comes late has a ledger that has grown."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_bursts
import bench_enough
import bench_laws
import bench_owed
import click
import pytest
from click.testing import CliRunner
from lab_bench import Place, in_turn
from published.pieces import PIECES, Piece

ROOT = Path(__file__).resolve().parents[2]


def test_every_other_repeat_has_the_opposite_order() -> None:
    assert [list(in_turn((1, 2, 3), repeat)) for repeat in (1, 2, 3)] == [[1, 2, 3], [3, 2, 1], [1, 2, 3]]


class Recorder:
    """Notes what it is to measure."""

    def __init__(self, *_where: object) -> None:
        self.done: list[Any] = []
        seen.append(self)

    def alone(self, name: str = "alone") -> float:
        self.done.append(name)
        return 1000.0

    def run(self, *condition: Any, **_options: Any) -> None:
        self.done.append(condition)

    def repeat(self, repeat: int, *_what: object) -> None:
        self.done.append(repeat)

    def maximum(self, _given: float | None) -> float:
        return 1000.0

    def bursts(self, name: str, number: int) -> list[Any]:
        self.done.append(name)
        return []

    def neighbours(self, *_which: object) -> AbstractContextManager[None]:
        return self._noted("neighbours")

    def daemon(self) -> AbstractContextManager[None]:
        return self._noted("daemon")

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        self.done.append(f"+{name}")
        yield
        self.done.append(f"-{name}")


seen: list[Recorder] = []


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen.clear()
    lab = SimpleNamespace(tree=SimpleNamespace(name="x"))
    monkeypatch.setattr(Place, "network", lambda _place, *_, **_options: nullcontext((lab, None)))
    monkeypatch.setattr(Place, "write", lambda *_: None)
    for name in ("bench_owed.Bench", "bench_enough.Bench", "bench_bursts.Bench", "bench_laws.Laws"):
        monkeypatch.setattr(name, Recorder)
    monkeypatch.setattr("bench_bursts.table", lambda *_: "")
    monkeypatch.setattr("bench_enough.table", lambda _done: "")
    monkeypatch.setattr("bench_owed.line", lambda _one: "")
    monkeypatch.setattr("bench_owed.asdict", lambda one: one)
    monkeypatch.setattr("bench_enough.asdict", lambda one: one)
    monkeypatch.setattr("bench_bursts.time", SimpleNamespace(sleep=lambda _seconds: None))


def order(command: click.Command, tmp_path: Path, *options: str) -> list[Any]:
    done = CliRunner().invoke(command, [*options, "--output", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return seen[-1].done


@pytest.mark.usefixtures("nothing_is_measured")
def test_what_is_owed_is_tried_from_the_other_end(tmp_path: Path) -> None:
    parts = ("--part", "0.4", "--part", "1.0")
    first, second = (order(bench_owed.main, tmp_path, *parts, "--repeat", number) for number in ("1", "2"))
    assert first == [
        "alone",
        ("nothing",),
        ("fixed",),
        "alone before 40%",
        ("40%", 400.0),
        "alone before 100%",
        ("100%", 1000.0),
    ]
    assert second == [
        "alone",
        "alone before 100%",
        ("100%", 1000.0),
        "alone before 40%",
        ("40%", 400.0),
        ("fixed",),
        ("nothing",),
    ]


@pytest.mark.usefixtures("nothing_is_measured")
def test_shares_by_hand_are_tried_from_the_other_end(tmp_path: Path) -> None:
    options = ("--sysbench", "4", "--sysbench", "8", "--shares", "2048")
    first, second = (order(bench_enough.main, tmp_path, *options, "--repeat", number) for number in ("1", "2"))
    assert first == [(0,), (4, 2048), (4, None), (8, 2048), (8, None)]
    assert second == [(0,), (8, None), (8, 2048), (4, None), (4, 2048)]


@pytest.mark.usefixtures("nothing_is_measured")
def test_bursts_come_from_the_other_end(tmp_path: Path) -> None:
    first, second = (order(bench_bursts.main, tmp_path, "--repeat", number) for number in ("1", "2"))
    assert first == ["warm", "alone", "+neighbours", "nothing", "+daemon", "qioi", "-daemon", "-neighbours"]
    assert second == ["warm", "+neighbours", "+daemon", "qioi", "-daemon", "nothing", "-neighbours", "alone"]


@pytest.mark.usefixtures("nothing_is_measured")
def test_repeats_of_the_laws_are_numbered_from_the_first_on(tmp_path: Path) -> None:
    assert order(bench_laws.main, tmp_path, "--repeats", "2", "--first-repeat", "4") == [4, 5]


@pytest.mark.parametrize("piece", [piece for piece in PIECES if piece.runs > 1], ids=lambda piece: str(piece.name))
def test_a_piece_that_runs_several_times_tells_each_run_its_number(piece: Piece) -> None:
    code = ast.parse((ROOT / "benchmarks" / piece.arguments[0]).read_text())
    turns = any(isinstance(node, ast.Name) and node.id == "in_turn" for node in ast.walk(code))
    assert ("{run}" in piece.arguments) == turns
    assert "{run}" not in piece.command
