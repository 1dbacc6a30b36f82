"""Pins programs to one CPU, so that neighbours disturb one component and leave the others the rest of the host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from qioi.kernel.threads import threads_of
from qioi.processes.cgroups import Group


class Pin:
    """One CPU for all threads of some groups. Threads that they start later inherit it."""

    def __init__(self, groups: Sequence[Group], cpu: int) -> None:
        self._groups, self._cpu = groups, cpu
        self._found: dict[int, set[int]] = {}

    def hold(self) -> None:
        """Pin every thread that is not. It is called again and again: a program may have been starting threads."""
        for thread in self._threads():
            with contextlib.suppress(ProcessLookupError):
                allowed = os.sched_getaffinity(thread)
                if allowed != {self._cpu}:
                    self._found.setdefault(thread, allowed)
                    os.sched_setaffinity(thread, {self._cpu})

    def release(self) -> None:
        """Let every thread run where it was found to; one that came later, wherever any of the others may."""
        anywhere = set[int]().union(*self._found.values())
        for thread in self._threads() if anywhere else ():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, self._found.get(thread, anywhere))

    def _threads(self) -> list[int]:
        return [int(thread) for group in self._groups for thread in threads_of(group.directories[0])]
