"""What commands accept for numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from qioi.cli import main
from qioi.commands import demo


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


@pytest.mark.parametrize(("cpus", "sysbench"), [(None, 8), (1, 8), (2, 8), (3, 12), (64, 256), (96, 256)])
def test_the_demo_has_enough_neighbours_for_a_host_of_many_cpus(
    monkeypatch: pytest.MonkeyPatch, cpus: int | None, sysbench: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    assert demo.command.make_context("demo", []).params["sysbench"] == sysbench
    assert demo.command.make_context("demo", ["--sysbench", "5"]).params["sysbench"] == 5


@pytest.mark.parametrize(
    "command", ["status", "top", "explain peer0", "profile", "adopt peer0", "mine /work", "threshold mychannel 9"]
)
def test_a_daemon_is_named_in_one_way(tmp_path: Path, command: str) -> None:
    """The configuration's was not the one that was asked where both were named."""
    words = [*command.split(), "-c", str(tmp_path / "qioi.yaml"), "--socket", str(tmp_path / "sock")]
    said = CliRunner().invoke(main, words)
    assert (said.exit_code, "--config and --socket exclude each other" in said.output) == (2, True), said.output
