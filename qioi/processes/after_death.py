"""Runs a command when this process has ended, also by SIGKILL.

The kernel kills a child with its parent (PR_SET_PDEATHSIG), but not what that child has started, nor containers, which
are children of their engine. So a shell waits at a pipe whose other end only this process holds, and which the kernel
closes when this process dies.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

#: ``read`` returns when the pipe is closed.
_WAIT_AND_RUN = 'read _; exec "$@"'


class AfterDeath:
    """Waits from its construction until :meth:`dismiss`, and runs ``words`` if this process dies meanwhile."""

    def __init__(self, words: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WAIT_AND_RUN, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End it, once this process has done by itself what the command would do."""
        self._process.kill()
        self._process.communicate()


def kill_group(leader: int) -> list[str]:
    """Give the command that kills a whole process group, by its leader's number."""
    return ["/bin/sh", "-c", 'kill -s KILL -- "-$0"', str(leader)]
