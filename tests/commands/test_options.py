"""What commands accept for numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from qioi.cli import main


@pytest.mark.parametrize("option", ["--period", "--threshold", "--window"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_replay_takes_finite_numbers_only(tmp_path: Path, option: str, value: str) -> None:
    (tmp_path / "peer.log").touch()
    said = CliRunner().invoke(main, ["replay", option, value, str(tmp_path / "peer.log")])
    assert (said.exit_code, f"{value} is no finite number" in said.output) == (2, True), said.output


@pytest.mark.parametrize(
    "command", ["top -i", "lab up --timeout", "demo --rate", "experiment run --duration", "profile -s"]
)
def test_so_do_others(command: str) -> None:
    said = CliRunner().invoke(main, [*command.split(), "nan"])
    assert (said.exit_code, "nan is no finite number" in said.output) == (2, True), said.output
