"""What is published: every piece names the code that it depends on."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from published import code, record
from published.pieces import PIECES, Piece
from published.rooms import BESIDE_FABRIC, DAEMON

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "figures" / "data"
LEDGER = ROOT / "ledger"
#: Rooms that stand elsewhere than their packages, and where packages stand; benchmarks are modules of their folder.
ROOMS = {"qioi.controller": "controller", "qioi.monitor": "monitor", "qioi.interference": "interference"}
FOLDERS = {"qioi": "", "demo_k8s": "deploy/k8s/"}
#: What the daemon imports for components that engines, units or a cluster's pods are.
OF_SOME_SOURCES = {
    *("qioi.discovery.containerd", "qioi.discovery.docker", "qioi.discovery.engine", "qioi.discovery.units"),
    "qioi.kubernetes",
}


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


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: str(piece.name))
def test_a_piece_names_all_that_its_benchmark_is_made_of(piece: Piece) -> None:
    for module in imported(ROOT / "benchmarks" / piece.arguments[0]):
        assert is_named(module, piece.code), f"{piece.arguments[0]} is made of {module}"


def test_what_the_daemon_imports_is_named_unless_it_acts_for_some_sources_of_components_alone() -> None:
    for file in (ROOT / "qioi" / "roster.py", *(ROOT / "qioi" / "daemon").glob("*.py")):
        for module in imported(file) - OF_SOME_SOURCES:
            assert is_named(module, DAEMON), f"{file.name} is made of {module}"


def test_what_real_fabric_runs_of_the_bundled_ledger_is_named_with_all_that_it_is_made_of() -> None:
    made_of, looked_at = ["internal/contracts", "internal/load"], set()
    made_of += [str(one.relative_to(LEDGER)) for one in (LEDGER / "internal" / "contracts").iterdir() if one.is_dir()]
    while made_of:
        package = made_of.pop()
        if package in looked_at:
            continue
        looked_at.add(package)
        assert any(f"ledger/{package}/".startswith(f"{path}/") for path in BESIDE_FABRIC), package
        for file in (LEDGER / package).glob("*.go"):
            if not file.name.endswith("_test.go"):
                made_of += re.findall(r'"github\.com/qioi/qioi/ledger/([^"]+)"', file.read_text())
    assert len(looked_at) > 10
    pieces = [piece for piece in PIECES if piece.needs_fabric]
    assert pieces
    assert all({*BESIDE_FABRIC} <= {*piece.code} for piece in pieces)


def is_named(module: str, paths: Sequence[str]) -> bool:
    """Whether one of these paths is a module's room, or the module itself."""
    room = ".".join(module.split(".")[:2])
    folder = FOLDERS.get(module.split(".")[0], "benchmarks/")
    return ROOMS.get(room, room.replace(".", "/")) in paths or f"{folder}{module.replace('.', '/')}.py" in paths


def imported(script: Path) -> set[str]:
    """Name the modules of this repository that a program imports, by itself or by another one beside it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            beside = script.with_name(f"{node.module}.py")
            if beside.exists():
                found |= {node.module, *imported(beside)}
            elif node.module.startswith(("qioi.", "demo_k8s.")):
                found.add(node.module)
    return found
