"""Options of `qioi lab up` that do not go with the system: a line, and nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from qioi.cli import main


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--nodes", "5"), "--nodes is for databases, not for --system ledger"),
        (("--system", "fabric", "--nodes", "5"), "--nodes is for databases, not for --system fabric"),
        (("--binaries", "."), "--binaries is for --system fabric, not for --system ledger"),
        (("--system", "cassandra", "--like-fabric"), "--like-fabric is for the bundled ledger"),
    ],
)
def test_an_option_of_another_system_is_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, ["lab", "up", "--dir", str(tmp_path / "lab"), *options])
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "lab").exists()
