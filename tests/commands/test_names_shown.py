"""Names stand in tables as they are, whatever they would mean to the library that draws them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from commit_line import commit_line

from qioi.cli import main
from qioi.commands import kubectl, profile
from qioi.commands.options import plain_console
from qioi.controller.guard.restore import Outcome, Result
from qioi.daemon.recover import Recovery, tell
from qioi.monitor.profile.scheduling import Account, row

#: A tag, the end of one that was not begun, and the name of a picture, to rich.
NAME = "pe[red]er[/x] :cat:"


def test_a_profile(capsys: pytest.CaptureFixture[str]) -> None:
    one = asdict(row(f"{NAME}\x1b[2J", "peer", Account(), 1.0))
    profile.show({
        "components": [one], "roles": [one], "rest": one,
        "seconds": 1.0, "events": 0, "lost_events": 0, "ended_by_size": False,
    })  # fmt: skip
    said = capsys.readouterr().out
    assert NAME in said
    assert "\x1b" not in said


def test_a_replay(tmp_path: Path) -> None:
    """Two peers of one name are told apart by their folders; the clock of one was set back, which is said."""
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    logs = [tmp_path / folder / "x].log" for folder in ("a[", "b[")]
    for log in logs:
        log.parent.mkdir()
        log.write_text(commit_line("red", 1, 1, noon) + commit_line("red", 2, 1, noon - timedelta(hours=1)))
    said = CliRunner().invoke(main, ["replay", *map(str, logs)])
    assert said.exit_code == 0, said.exception
    assert "the clock of a[/x] was set back 1 times" in " ".join(said.stdout.split())


def test_policies(capsys: pytest.CaptureFixture[str]) -> None:
    part = {"name": "peer0", "node": "n", "problem": f"! {NAME}"}
    policy = {
        "metadata": {"namespace": "default", "name": "pay"},
        "spec": {"channel": "payments", "law": "adaptive"},
        "status": {"components": [part]},
    }
    kubectl.show([policy], plain_console(200))
    assert NAME in capsys.readouterr().out


def test_what_was_put_back() -> None:
    said: list[str] = []
    tell(Recovery((Outcome("g\x1b[2J", Result.OK, 1024, "1 -> 2"),), ("journal: line \x9b1",)), said.append)
    assert said == ["journal: line  1", "g [2J: ok: 1 -> 2"]
