"""Which CPUs components may run on, of those that may not run on all: by cpusets, or by their threads' own affinity.

A cpuset narrows the affinity of every thread in it, so that the threads alone tell (sched_setaffinity(2)). They are
asked rarely, some components in each period.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from qioi.kernel.threads import threads_of
from qioi.model import Component

#: Seconds after which a component's threads are asked again.
EVERY = 15.0
#: Components that are asked in one period: so many, or that part of all.
AT_ONCE, PART = 20, 0.1


class PinnedComponents:
    """Asks the threads in the components' groups below ``mount``, any controller's."""

    def __init__(self, components: Iterable[Component], mount: Path) -> None:
        self._mount = mount
        self._groups: dict[str, str] = {}
        self._asked: dict[str, float] = {}  # the longest ago first
        self._cpus: dict[str, frozenset[int]] = {}
        self.watch(components)

    def watch(self, components: Iterable[Component]) -> None:
        """Watch these components from now on."""
        groups = {one.name: one.cgroup for one in components}
        self._asked = {name: at for name, at in self._asked.items() if groups.get(name) == self._groups[name]}
        self._cpus = {name: cpus for name, cpus in self._cpus.items() if name in self._asked}
        self._groups = groups

    def look(self, now: float) -> dict[str, frozenset[int]]:
        """Ask the components whose turn it is at the monotonic time ``now``; give the CPUs of all that are pinned."""
        most = max(AT_ONCE, round(PART * len(self._groups)))
        due = [name for name in self._groups if name not in self._asked]
        due += [name for name, at in self._asked.items() if now - at >= EVERY][:most]
        for name in due[:most]:
            self._asked.pop(name, None)
            self._asked[name] = now
            cpus = allowed(threads_of(self._mount / self._groups[name]))
            if 0 < len(cpus) < (os.cpu_count() or 1):
                self._cpus[name] = cpus
            else:
                self._cpus.pop(name, None)
        return self._cpus


def allowed(threads: Iterable[bytes]) -> frozenset[int]:
    """Give the CPUs that any of these threads may run on; none where there is no thread."""
    cpus: set[int] = set()
    for thread in threads:
        number = int(thread)
        if number:  # 0 is a thread that this process, in another PID namespace, cannot see
            with contextlib.suppress(OSError):  # it has ended
                cpus |= os.sched_getaffinity(number)
    return frozenset(cpus)
