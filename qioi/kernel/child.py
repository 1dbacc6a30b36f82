"""A child process whose end can always be waited for, and one that ends with its parent."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from typing import AnyStr

#: Seconds between two looks of a wait that has a limit, at most.
LOOK = 0.05


def mortal(words: Sequence[str]) -> list[str]:
    """Give a command that the kernel kills when the thread that starts it ends (PR_SET_PDEATHSIG, prctl(2)).

    The shell becomes the program, if its parent had not ended before.
    """
    begin = '[ "$PPID" = "$0" ] && exec "$@"'
    return ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", begin, str(os.getpid()), *words]


class Child(subprocess.Popen[AnyStr]):
    """A :class:`subprocess.Popen` that an interruption leaves usable.

    Popen's own ``poll()`` and ``wait(timeout)`` take a lock a moment before the ``try`` that releases it. Where a
    signal handler raises in that moment, as ctrl-C's does, the lock stays taken, and each later ``wait()`` is for
    ever. Here both look without the lock (``WNOWAIT``, waitid(2)), and reap by ``wait()``, which always releases it.
    """

    def poll(self) -> int | None:
        """Give the exit status once it has ended."""
        if self.returncode is None and not self._has_ended():
            return None
        return super().wait()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; :class:`subprocess.TimeoutExpired` after ``timeout`` seconds."""
        if timeout is None:
            return super().wait()
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            rest = deadline - time.monotonic()
            if rest <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(min(LOOK, rest))
        return status

    def _has_ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody else has reaped it, as the kernel does where SIGCHLD is ignored
            return True
