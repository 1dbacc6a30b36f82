"""Takes a lab down when the process that brought it up is gone, however it went.

Processes die with their parent by the kernel's hand; containers are the engine's children, so somebody has to tell the
engine. The guard waits at the end of a pipe whose other end only the parent has, and which no death can keep open.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: ``read`` returns when the parent has closed the pipe, by its end.
_WAIT_AND_END = 'read _; exec "$0" -m qioi.cli lab down --dir "$1"'


class Guard:
    """Stands by from construction until :meth:`dismiss`."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WAIT_AND_END, sys.executable, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """Send it away: its parent has taken the lab down."""
        self._process.kill()
        self._process.communicate()
