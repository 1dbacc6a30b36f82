"""The foreign control groups beside components: which of them use the most CPU time, and which leave room.

Foreign are the groups that stand beside components or beside groups in which there are components. Their accounts are
read at most once a second, and only while the caller asks. The groups below a busy group are read too, so that a
neighbour is named and not the slice that it is in. Processes that are in a group above components themselves go by that
group's name; the mount's own is ``/``.

A group at ``cpu.idle`` leaves room for all others beside it (kernel: Documentation/scheduler/sched-design-CFS.rst,
SCHED_IDLE), so that it is no foreign work there. Deeper in the tree ``cpu.idle`` decides only between neighbours.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from pathlib import Path

from qioi.kernel.cpu_accounts import CpuAccounts
from qioi.kernel.files import NUMBER, KernelFiles
from qioi.model import Foreigner
from qioi.model.groups import ROOT, parent_of

#: Seconds between two looks at all groups.
EVERY = 1.0
#: Seconds between two listings of the groups, and after which the look before is too long ago to compare with; so it is
#: after that many of the caller's periods where these are longer.
RELIST, PAUSE, PERIODS = 5.0, 3.0, 2.5
#: CPUs from which on a group is worth naming, and asking for what is below it and whether it is idle.
LEAST = 0.05
#: Groups that are named, looked into, and looked at.
NAMED, OPENED, MOST = 5, 8, 2000
#: The part of a group's CPU time that the groups below it must have for them to be named in its place; levels opened.
EXPLAINED, DEPTH = 0.8, 4


class ForeignGroups:
    """``mount`` is the CPU controller's.

    ``made_idle`` names the groups that this daemon has made idle. These stay foreign work: otherwise the reason to make
    them idle would be gone as soon as they are. Without ``made_idle`` no group is taken to leave room.
    """

    def __init__(
        self,
        accounts: CpuAccounts,
        mount: Path,
        files: KernelFiles | None = None,
        made_idle: Callable[[], Collection[str]] | None = None,
    ) -> None:
        self._made_idle = made_idle
        self._accounts = accounts
        self._mount = mount
        self._files = files or KernelFiles()
        self._branches: Mapping[str, Set[str]] = {}
        self._beside: tuple[str, ...] = ()
        self._below: dict[str, tuple[str, ...]] = {}  # of groups that use much; listed anew with those beside
        self._listed = self._looked = float("-inf")
        self._before: dict[str, float] = {}
        self._cores: dict[str, float] = {}
        self._with_new: Set[str] = frozenset()  # groups with one below that is new, or made anew, of unknown use
        self._idle: dict[str, float] = {}  # groups at cpu.idle beside components: the seconds that they had used
        self._idle_seconds = 0.0

    def look(self, now: float, branches: Mapping[str, Set[str]], period: float = 0.0) -> None:
        """Look at the monotonic time ``now``, if it is time to.

        ``branches`` are the groups above components, each with those of its children that lead to components.
        ``period`` is the caller's, in seconds.
        """
        if now - self._looked < EVERY and branches is self._branches:
            return
        ours = {group for children in branches.values() for group in children} | branches.keys()
        if branches is not self._branches or now - self._listed >= RELIST:
            self._branches, self._listed = branches, now
            beside = [group for parent in branches for group in self._children(parent) if group not in ours]
            self._beside = tuple(beside[:MOST])
            self._below = {one: self._children(one) for one in self._below}
        below = (one for several in self._below.values() for one in several)
        groups = {*self._beside, *below, *branches, *(one for children in branches.values() for one in children)}
        seconds = {group: used for group in groups if (used := self._accounts.seconds(group)) is not None}
        passed = now - self._looked
        before = self._before if passed <= max(PAUSE, PERIODS * period) else {}
        grown = {group: used - before[group] for group, used in seconds.items() if used >= before.get(group, math.inf)}
        self._cores = {group: used / passed for group, used in grown.items()}
        self._with_new = {parent_of(group) for group in seconds.keys() - grown.keys()}
        self._before, self._looked = seconds, now
        busy = [group for group, cores in self._cores.items() if cores >= LEAST and group not in ours]
        idle = [group for group in {*busy, *self._idle}.intersection(self._beside) if self._leaves_room(group)]
        self._idle = {group: self._idle.get(group, seconds.get(group, 0.0)) for group in idle}
        busy = sorted((one for one in busy if one not in self._idle), key=self._cores.__getitem__, reverse=True)
        self._below = {one: self._below.get(one) or self._children(one) for one in busy[:OPENED]}

    @property
    def looked(self) -> float:
        """Give the time of the last look."""
        return self._looked

    def running(self, least: float) -> Mapping[str, float]:
        """Give the CPUs of groups beside components that used ``least`` and leave no room, between two looks."""
        known = ((one, self._cores.get(one, 0.0)) for one in self._beside)
        return {one: cores for one, cores in known if cores >= least and one not in self._idle}

    def _children(self, group: str) -> tuple[str, ...]:
        """List the groups in a group."""
        try:
            with os.scandir(self._mount / group) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return ()
        return tuple(f"{group}/{name}" if group else name for name in sorted(names))

    def _leaves_room(self, group: str) -> bool:
        if self._made_idle is None or group in self._made_idle():
            return False
        try:
            return self._files.read(f"{self._mount}/{group}/cpu.idle", NUMBER).strip() == b"1"
        except OSError:  # kernels before 5.15
            return False

    def most(self) -> tuple[Foreigner, ...]:
        """Name the groups that used the most CPUs between the last two looks, the most first."""
        found = [one for group in self._beside if group not in self._idle for one in self._explain(group, DEPTH)]
        beside: defaultdict[str, float] = defaultdict(float)
        for group in self._beside:
            beside[parent_of(group)] += self._cores.get(group, 0.0)
        for parent, ours in self._branches.items():
            if parent in self._with_new:
                continue
            own = self._cores.get(parent, 0.0) - beside[parent] - sum(self._cores.get(one, 0.0) for one in ours)
            if own >= LEAST:
                found.append(Foreigner(parent or ROOT, own))
        return tuple(sorted(found, key=lambda one: one.cores, reverse=True)[:NAMED])

    def _explain(self, group: str, depth: int) -> Iterable[Foreigner]:
        """Name a group or, where these used most of what it used, those below it."""
        cores = self._cores.get(group, 0.0)
        if cores < LEAST:
            return ()
        below = self._below.get(group, ()) if depth else ()
        if below and sum(self._cores.get(one, 0.0) for one in below) >= EXPLAINED * cores:
            return [found for one in below for found in self._explain(one, depth - 1)]
        return (Foreigner(group, cores),)

    def idle_seconds(self) -> float:
        """Say how much CPU time the groups that leave room have used since they were found: a running total."""
        for group, before in list(self._idle.items()):
            used = self._accounts.seconds(group) if self._leaves_room(group) else None
            if used is None:
                del self._idle[group]
            else:
                self._idle_seconds += max(0.0, used - before)
                self._idle[group] = used
        return self._idle_seconds

    def idle_groups(self) -> tuple[str, ...]:
        """Name the groups that leave room."""
        return tuple(self._idle)
