"""A ledger for which the disk has no room is refused before anything is made."""

from __future__ import annotations

from pathlib import Path

from bench_growth_length import lacks, main
from click.testing import CliRunner


def test_what_fits_lacks_nothing(tmp_path: Path) -> None:
    assert lacks(tmp_path, 1) is None


def test_a_disk_that_is_too_small_is_told_in_one_line(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["--length", "10", "--length", str(10**15), "--output", str(tmp_path / "out")])
    assert ran.exit_code == 1
    assert ran.output.startswith(f"Error: {tmp_path}/out: ")
    assert ran.output.endswith(" GB free: accepted is 3100000000.0 GB, for 1,000,000,000,000,000 transactions\n")
    assert list((tmp_path / "out").iterdir()) == []
