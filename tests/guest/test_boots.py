"""What the guest is to run is there: `make test` says so, long before anybody boots one."""

from __future__ import annotations

from pathlib import Path

from test_guest import BOOTS

REPOSITORY = Path(__file__).resolve().parents[2]


def test_each_file_is_there_and_all_that_is_inside_runs_in_some_boot() -> None:
    named = [REPOSITORY / name for names in BOOTS.values() for name in names]
    assert [file for file in named if not file.exists()] == []
    assert set((REPOSITORY / "tests/guest/inside").glob("test_*.py")) <= set(named)
