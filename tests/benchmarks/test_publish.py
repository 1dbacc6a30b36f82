"""`publish.py measure`: one at a time on a host, and a piece that fails keeps no other from being measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner
from publish import main
from published import means
from published.measure import UnmeasuredError
from published.pieces import PIECES, Piece

from qioi.lab.lock import exclusive
from qioi.processes.errors import LabError

NAMES = ("ledger", "daemon")


@pytest.fixture
def asked(tmp_path: Path) -> tuple[str, ...]:
    pieces = tuple(word for name in NAMES for word in ("--piece", name))
    return ("measure", *pieces, "--again", "--results", str(tmp_path))


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], list[str]]:
    """Have each piece fail, and note which were tried."""
    tried: list[str] = []

    def failing(error: Exception) -> list[str]:
        def measure(piece: Piece, *_how: object) -> NoReturn:
            tried.append(piece.name)
            raise error

        monkeypatch.setattr("publish.build_ledger", lambda _root: None)
        monkeypatch.setattr("publish.measure", measure)
        return tried

    return failing


@pytest.mark.parametrize(
    "error",
    [LabError("no engine"), UnmeasuredError("no engine"), ValueError("no engine")],
    ids=lambda one: type(one).__name__,
)
def test_a_piece_that_fails_keeps_no_other_from_being_measured(
    asked: tuple[str, ...], fail: Callable[[Exception], list[str]], error: Exception
) -> None:
    tried = fail(error)
    done = CliRunner().invoke(main, asked)
    assert sorted(tried) == sorted(NAMES)
    assert done.output.count("Error: no engine\n") == 2
    assert (done.exit_code, done.output.splitlines()[-1]) == (1, f"Error: not measured: {', '.join(tried)}")


def test_a_piece_whose_means_are_not_there_is_left_out(
    asked: tuple[str, ...], fail: Callable[[Exception], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = [piece._replace(lacks=lambda: "no engine") if piece.name == "daemon" else piece for piece in PIECES]
    monkeypatch.setattr("publish.PIECES", lacking)
    tried = fail(ValueError("it was measured"))
    done = CliRunner().invoke(main, asked)
    assert tried == ["ledger"]
    assert done.output.startswith("daemon is left out: no engine\n1 of 1 pieces to measure")


def test_no_engine_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    why = means.engine()
    assert why is not None
    assert "no container engine" in why
    assert "\n" not in why


def test_two_do_not_measure_beside_each_other(
    asked: tuple[str, ...], fail: Callable[[Exception], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qioi.lab.lock.PATIENCE", 0.0)
    tried = fail(ValueError("it was measured"))
    with exclusive("qioi-publish", ""):
        done = CliRunner().invoke(main, asked)
    assert (done.exit_code, tried) == (1, [])
    assert done.output.splitlines()[-1] == (
        "Error: another `publish.py measure` of this user's is at work on this host; wait for it to end"
    )
