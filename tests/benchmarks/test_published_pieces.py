"""What is published: every piece names the code that it depends on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from published import code, record
from published.pieces import PIECES, Piece

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "figures" / "data"


def test_every_record_is_of_a_piece_and_has_a_value_of_each_repeat() -> None:
    pieces = {piece.name for piece in PIECES}
    for name, its in record.load_all(DATA).items():
        assert name in pieces
        assert all(
            len(values) == len(its.rows[0].values[its.columns[0].key]) for r in its.rows for values in r.values.values()
        )


def test_a_piece_names_code_that_there_is_and_takes_at_most_forty_minutes() -> None:
    for piece in PIECES:
        assert code.digest(ROOT, piece.code)
        assert piece.minutes <= 40
        assert (ROOT / "benchmarks" / piece.arguments[0]).exists()


@pytest.mark.parametrize("part", ["contracts", "load", "process"])
def test_a_piece_of_real_fabric_names_the_client_and_the_contracts_of_the_bundled_ledger(part: str) -> None:
    pieces = [piece for piece in PIECES if piece.needs_fabric]
    assert pieces
    assert all(f"ledger/internal/{part}" in piece.code for piece in pieces)


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: str(piece.name))
def test_a_piece_names_all_that_its_benchmark_is_made_of(piece: Piece) -> None:
    rooms = {"qioi.controller": "controller", "qioi.monitor": "monitor", "qioi.interference": "interference"}
    named = " ".join(imported(ROOT / "benchmarks" / piece.arguments[0]))
    for module in named.split():
        room = ".".join(module.split(".")[:2])
        path = rooms.get(room, room.replace(".", "/")) if module.startswith("qioi") else f"benchmarks/{module}.py"
        module_alone = f"{module.replace('.', '/')}.py"
        assert path in piece.code or module_alone in piece.code, f"{piece.arguments[0]} is made of {module}"


def imported(script: Path) -> set[str]:
    """Name the modules of this repository that a benchmark imports, by itself or by another benchmark."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            beside = script.with_name(f"{node.module}.py")
            if beside.exists():
                found |= {node.module, *imported(beside)}
            elif node.module.startswith("qioi."):
                found.add(node.module)
    return found
