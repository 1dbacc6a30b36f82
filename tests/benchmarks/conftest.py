"""What tests of published figures share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock nothing of this host's: a real measurement may run beside the tests."""
    folder = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr("qioi.lab.lock.lock_folder", lambda: folder)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one tracked file of code."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "law.py").write_text("step = 1\n")
    (tmp_path / "notes.md").write_text("words\n")
    subprocess.run(["git", "-C", str(tmp_path), "add", "-A"], check=True)
    return tmp_path
