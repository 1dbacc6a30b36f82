"""Caliper's manager does not stay behind where its start does not come to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from qioi.lab import caliper
from qioi.lab.caliper import launch_manager, start_manager


def test_a_manager_whose_watcher_cannot_start_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no process left for what ends Caliper's workers after a kill."""
    script = tmp_path / "@hyperledger" / "caliper-cli" / "caliper.js"
    script.parent.mkdir(parents=True)
    script.write_text("exec sleep 1000\n")
    started = []

    def start(*words: Any) -> Any:
        started.append(start_manager(*words))
        return started[0]

    def fail(_words: object) -> None:
        raise BlockingIOError("no process is left")

    monkeypatch.setattr(caliper, "start_manager", start)
    monkeypatch.setattr(caliper, "AfterDeath", fail)
    try:
        with pytest.raises(BlockingIOError, match="no process is left"):
            launch_manager("/bin/sh", tmp_path, tmp_path, tmp_path, None, tmp_path / "caliper.log", print)
        assert not psutil.pid_exists(started[0].pid)
    finally:
        for one in started:
            one.kill()
            one.wait()
