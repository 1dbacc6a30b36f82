"""What a command prints goes to a disk that is full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

QIOI, KUBECTL = "qioi.cli", "qioi.commands.kubectl"


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "at once"])
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (QIOI, ["check", "--output", "json"]),
        (QIOI, ["experiment", "list"]),
        (QIOI, ["--help"]),
        (QIOI, ["--version"]),
        (QIOI, ["check", "--help"]),
        (KUBECTL, ["--help"]),
        (KUBECTL, ["restore", "--help"]),
    ],
    ids=str,
)
def test_it_is_said_in_one_line(program: str, arguments: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", f"from {program} import main; main()", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (1, "Error: what it prints cannot be written: No space left on device\n")
