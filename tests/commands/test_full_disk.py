"""What a command prints goes to a disk that is full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "at once"])
@pytest.mark.parametrize(
    "arguments",
    [["check", "--output", "json"], ["experiment", "list"], ["--help"], ["--version"], ["check", "--help"]],
    ids=" ".join,
)
def test_it_is_said_in_one_line(arguments: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "qioi.cli", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (1, "Error: what it prints cannot be written: No space left on device\n")
