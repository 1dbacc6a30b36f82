"""Options of `qioi lab` that do not go with the system, or with what they are for: a line, and nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from qioi.cli import main


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--nodes", "5"), "--nodes means nothing to --system ledger"),
        (("--system", "fabric", "--nodes", "5"), "--nodes means nothing to --system fabric"),
        (("--binaries", "."), "--binaries means nothing to --system ledger"),
        (("--system", "fabric", "--like-fabric"), "--like-fabric means nothing to --system fabric"),
        (("--system", "cassandra", "--orderers", "3"), "--orderers means nothing to --system cassandra"),
        (("--system", "mysql", "--chaincode", "kv"), "--chaincode means nothing to --system mysql"),
    ],
)
def test_an_option_of_another_system_is_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, ["lab", "up", "--dir", str(tmp_path / "lab"), *options])
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "lab").exists()


def test_a_seed_that_no_workload_takes_is_refused(tmp_path: Path) -> None:
    """JavaScript has no such whole number: each round would fail as it begins."""
    where = ["--dir", str(tmp_path / "lab"), "--output", str(tmp_path / "results")]
    done = CliRunner().invoke(main, ["lab", "caliper", "simple", "--seed", str(2**53), *where])
    assert done.exit_code == 2
    assert f"{2**53} is not in the range 1<=x<={2**31 - 1}" in done.output
    assert not (tmp_path / "results").exists()
