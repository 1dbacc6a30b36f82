"""The daemon's log: times of its own on a terminal, priorities in systemd's journal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from waiting import PATIENCE

PROGRAM = """
import logging, sys
from qioi.daemon.log_lines import prepare
prepare(sys.stderr, logging.INFO)
log = logging.getLogger("qioi")
log.debug("not said")
log.info("twelve components")
log.warning("a foreign share")
try:
    raise ValueError("broken")
except ValueError:
    log.exception("an error")
log.info("group \\x1b]0;name\\x07 of a stranger")
"""


def said(*command: str, journal: bool, status: int = 0) -> list[str]:
    """Log to a pipe that systemd says is its journal's, or that another one is."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as text:
        pipe = os.fstat(writing)
        stream = f"{pipe.st_dev}:{pipe.st_ino if journal else pipe.st_ino + 1}"
        environment = {**os.environ, "JOURNAL_STREAM": stream}
        done = subprocess.run(
            [sys.executable, *command], stderr=writing, env=environment, timeout=PATIENCE, check=False
        )
        os.close(writing)
        assert done.returncode == status
        return text.read().splitlines()


def test_in_the_journal_each_line_has_its_priority() -> None:
    lines = said("-c", PROGRAM, journal=True)
    assert lines[:3] == ["<6>twelve components", "<4>a foreign share", "<3>an error"]
    assert lines[-2:] == ["<3>ValueError: broken", "<6>group  ]0;name  of a stranger"]
    assert all(line.startswith("<3>") for line in lines[2:-1])


@pytest.mark.slow
def test_why_it_does_not_start_is_an_error_there() -> None:
    nothing = "No such file or directory: accepted is a readable YAML file"
    assert said("-m", "qioi.cli", "run", "-c", "/nowhere", journal=True, status=1) == [f"<3>Error: /nowhere: {nothing}"]
    assert said("-m", "qioi.cli", "run", "-c", "/nowhere", journal=False, status=1) == [f"Error: /nowhere: {nothing}"]


@pytest.mark.parametrize(
    ("number", "ending"),
    [(0, "INFO twelve components"), (1, "WARNING a foreign share"), (-1, "INFO group  ]0;name  of a stranger")],
)
def test_elsewhere_each_has_its_time_and_level(number: int, ending: str) -> None:
    line = said("-c", PROGRAM, journal=False)[number]
    assert line.startswith("20")
    assert line.endswith(ending)
