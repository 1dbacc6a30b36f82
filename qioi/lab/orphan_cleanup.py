"""Takes a lab of containers down when the process that brought it up has ended, also by SIGKILL.

The kernel kills processes with their parent, but containers are children of the engine. So this process waits at a pipe
whose other end only the parent holds, and which the kernel closes when the parent dies.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: ``read`` returns when the pipe is closed.
_WAIT_AND_END = 'read _; exec "$0" -m qioi.cli lab down --dir "$1"'


class OrphanCleanup:
    """Waits from its construction until :meth:`dismiss`."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WAIT_AND_END, sys.executable, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End it, once its parent has taken the lab down."""
        self._process.kill()
        self._process.communicate()
