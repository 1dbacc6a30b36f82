"""Waiting for what must come. A process on a busy machine may stand still for many seconds: none of this is decided
by how long anything takes.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Seconds; far longer than anything takes. All that is decided by it is that the test has failed.
PATIENCE = 150.0
#: Begins the command of what must not outlive a test that is killed (setpriv(1), PR_SET_PDEATHSIG).
DIES_WITH_TEST = ("setpriv", "--pdeathsig", "KILL", "--")


def until(
    condition: Callable[[], T], pause: float = 0.02, what: str = "what was waited for", patience: float = PATIENCE
) -> T:
    """Wait until something is true, and give it. The times are in seconds."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it never came true: {what}"
        time.sleep(pause)
    return found


def remove_group(folder: Path) -> None:
    """Remove an empty control group. The kernel may still be busy with it when its last process was waited for."""

    def removed() -> bool:
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    until(removed, what=f"{folder} is empty")


def remove_tree(folder: Path) -> None:
    """Remove a control group and all below it, which have no process."""
    for below in sorted(folder.glob("**/"), reverse=True):
        remove_group(below)
