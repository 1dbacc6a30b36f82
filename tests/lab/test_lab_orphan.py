"""What takes a lab of containers down after a killed command, where that does not go at once."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from waiting import DIES_WITH_TEST, PATIENCE, until

from qioi.lab import lock
from qioi.lab.folder import MARKER, marker_of
from qioi.lab.lab import Lab
from qioi.lab.orphan_cleanup import take_down

#: As `Lab.up` does it for containers.
PARENT = """
import sys, time
from qioi.processes.after_death import AfterDeath
waits = AfterDeath([sys.executable, *sys.argv[1:]])
print("up", flush=True)
time.sleep(1000)
"""
#: What cleans up, in a hurry: a byte of a file for each try that fails.
CLEANUP = """
import sys
from pathlib import Path
from qioi.lab import lock, orphan_cleanup
from qioi.processes.errors import LabError

down = orphan_cleanup.Lab.down

def counted(lab, **how):
    try:
        return down(lab, **how)
    except LabError:
        with open(sys.argv[3], "a") as failed:
            failed.write("x")
        raise

orphan_cleanup.Lab.down, lock.PATIENCE, orphan_cleanup.PAUSES = counted, 0.05, (0.05,) * 10_000
orphan_cleanup.take_down(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.fixture
def left(lab: Lab) -> Path:
    """What a killed command has left: here a folder alone."""
    lab.directory.mkdir()
    (lab.directory / MARKER).write_text("x\n")
    return lab.directory


@pytest.mark.slow
def test_it_tries_again_while_another_command_is_at_work(left: Path, tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    command = [*DIES_WITH_TEST, sys.executable, "-c", PARENT]
    words = ["-c", CLEANUP, str(left), marker_of(left), str(failed)]
    with Lab(left).locked():
        parent = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        parent.kill()
        parent.communicate()
        until(lambda: failed.exists() and failed.stat().st_size >= 2)
        assert left.exists()
    until(lambda: not left.exists())


def test_a_lab_that_has_come_meanwhile_is_left_alone(left: Path) -> None:
    before = marker_of(left)
    os.utime(left / MARKER, ns=(1, 1))
    assert take_down(left, before)
    assert left.exists()


@pytest.mark.slow
def test_one_that_comes_while_it_waits_is_left_alone(left: Path) -> None:
    with ExitStack() as released:
        released.enter_context(Lab(left).locked())
        words = ["-m", "qioi.lab.orphan_cleanup", str(left), marker_of(left)]
        waiting = subprocess.Popen([sys.executable, *words])
        try:
            until(lambda: lock.lock_folder() in opened_below(waiting.pid) or waiting.poll() is not None)
            os.utime(left / MARKER, ns=(1, 1))
            released.close()
            assert waiting.wait(PATIENCE) == 0
        finally:
            waiting.kill()
            waiting.wait()
    assert left.exists()


def opened_below(pid: int) -> set[Path]:
    """Name the folders of the files that a process has open."""
    return {Path(one).resolve().parent for one in Path(f"/proc/{pid}/fd").iterdir()}
