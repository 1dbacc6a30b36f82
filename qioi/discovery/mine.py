"""The control groups that an operator calls his own. They use the ledger, so they are no foreign work.

A group that a pattern fits is a component of the role `client`: it is shown, and never raised. Patterns are looked for
from the loop, now and then: to list a few folders costs microseconds.
"""

from __future__ import annotations

import glob
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from qioi.discovery.base import Found
from qioi.kernel.patterns import fitting
from qioi.model import Component, Role
from qioi.model.groups import chain

#: Seconds between two looks.
EVERY = 2.0
#: Groups that patterns may find; more are left out, and said.
MOST = 200
#: Groups that one pattern may find before it is given up: others may make as many as they like below one that it fits.
MOST_OF_A_PATTERN = 1000


class OwnGroups:
    """Finds the groups that shell patterns fit, below the CPU controller's mount."""

    def __init__(self, mount: Path, patterns: Iterable[str], every: float = EVERY) -> None:
        self._mount = mount
        self._patterns = tuple(patterns)
        self._every = every
        self._next = 0.0
        self._found = Found()

    def add(self, group: str) -> tuple[str, ...]:
        """Take one group in, from the next look on; from any thread. Give all patterns."""
        pattern = glob.escape(group)
        if pattern not in self._patterns:
            self._patterns += (pattern,)
        self._next = 0.0
        return self._patterns

    def found(self) -> Found:
        """Look, if it is time to, and give what is there."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            found = self._look()
            if found != self._found:
                self._found = found
        return self._found

    def close(self) -> None:
        """Nothing is open."""

    def _look(self) -> Found:
        groups, problems = set(), {}
        for pattern in self._patterns:
            found = list(islice(fitting(self._mount, pattern), MOST_OF_A_PATTERN + 1))
            groups.update(found[:MOST_OF_A_PATTERN])
            if not found:
                problems[f"mine {pattern}"] = "no control group fits"
            elif len(found) > MOST_OF_A_PATTERN:
                problems[f"mine {pattern}"] = f"more than {MOST_OF_A_PATTERN} groups fit, others are left out"
        # What a group uses has those below it in it.
        outermost = sorted(group for group in groups if groups.isdisjoint(chain(group)[1:]))
        if len(outermost) > MOST:
            problems["mine"] = f"{len(outermost)} groups fit, the first {MOST} are taken"
        return Found(tuple(Component(group, Role.CLIENT, group) for group in outermost[:MOST]), problems=problems)
