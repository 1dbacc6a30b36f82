"""What `make` sets up, it sets up again where it was interrupted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def make_environment(folder: Path) -> None:
    """Run the step of `make setup` that makes the Python environment, in another folder."""
    command = ["make", "-C", str(ROOT), f"VENV={folder}", "--eval", "environment: ; $(environment)", "environment"]
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.mark.slow
def test_an_environment_without_pip_is_made_again_and_a_whole_one_is_left(tmp_path: Path) -> None:
    """An interrupted venv has its Python before it has pip."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    make_environment(folder)
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "--version"], check=True)
    kept = folder / "kept"
    kept.touch()
    make_environment(folder)
    assert kept.exists()


def test_clean_removes_every_cache_that_git_ignores() -> None:
    """The environment, results and what somebody fetched or measured by hand stay."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().split()}
    done = subprocess.run(["make", "-n", "-C", str(ROOT), "clean"], check=True, capture_output=True, text=True)
    removed = {word.strip("/") for line in done.stdout.splitlines() if "rm -rf" in line for word in line.split()}
    assert ignored - removed == {".venv", "results", "node_modules", "*.prof"}
