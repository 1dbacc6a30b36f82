"""Runs a program to its end, and lets it clean up after itself where it is interrupted."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from qioi.kernel.child import Child
from qioi.lab.signals import uninterrupted

#: Seconds that an interrupted program has to take down what it has started.
CLEANUP = 120.0


def run_to_end(
    words: Sequence[str], *, seconds: float | None = None, cwd: Path | None = None, output: IO[str] | None = None
) -> int:
    """Run a program and give its exit status; ``output`` takes all that it writes.

    An interruption, or TimeoutExpired after ``seconds``, is raised once the program has ended. A program whose parent
    is killed is interrupted; so call this from the main thread: the kernel takes the thread's end for the parent's.
    """
    errors = None if output is None else subprocess.STDOUT
    command = ["setpriv", "--pdeathsig", "INT", "--", *words]
    # The group keeps the terminal's signals away: a second ctrl-C would interrupt the program's cleanup.
    child: Child[bytes] = Child(command, cwd=cwd, stdout=output, stderr=errors, process_group=0)
    with child:
        try:
            return child.wait(seconds)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            with uninterrupted():
                end(child)
            raise


def end(child: Child[bytes]) -> None:
    """Interrupt a program and wait for its end; kill it if it does not come."""
    for number in (signal.SIGINT, signal.SIGTERM):
        child.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(CLEANUP)
            return
    child.kill()
    child.wait()
