"""Runs a program to its end, and lets it clean up after itself where it is interrupted."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from qioi.lab.signals import uninterrupted

#: Seconds that an interrupted program has to take down what it has started.
CLEANUP = 120.0


def run_to_end(
    words: Sequence[str], *, seconds: float | None = None, cwd: Path | None = None, output: IO[str] | None = None
) -> int:
    """Run a program and give its exit status; ``output`` takes all that it writes.

    An interruption, or TimeoutExpired after ``seconds``, is raised once the program has ended.
    """
    errors = None if output is None else subprocess.STDOUT
    with subprocess.Popen(words, cwd=cwd, stdout=output, stderr=errors) as child:
        try:
            return child.wait(seconds)
        except (KeyboardInterrupt, subprocess.TimeoutExpired) as error:
            with uninterrupted():
                # A terminal tells the program, too: a second ctrl-C would interrupt its cleanup.
                told = isinstance(error, KeyboardInterrupt) and signal.SIGTERM.name not in error.args
                end(child, told=told)
            raise


def end(child: subprocess.Popen[bytes], *, told: bool) -> None:
    """Wait for the end of a program that was ``told`` to end, or is now; kill it if it does not."""
    if not told:
        child.send_signal(signal.SIGINT)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(CLEANUP)
            return
        child.send_signal(number)
    child.wait()
