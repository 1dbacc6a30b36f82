"""Foreign control groups: what runs in them, and which of them an operator may call his own."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from heapq import nlargest
from itertools import islice
from pathlib import Path

import psutil

from qioi.kernel.hierarchy import Hierarchy
from qioi.kernel.patterns import fitting
from qioi.model.groups import ROOT, chain
from qioi.model.names import in_one_line
from qioi.show.snapshot import Snapshot

#: Processes of a group that are looked at, and names that are given.
LOOKED_AT, NAMED = 200, 3


def folder_of(group: str, hierarchy: Hierarchy) -> Path:
    """Give the folder of a foreign group; the root group is called ``/``."""
    return hierarchy.folder(group.strip("/"))


def busiest(folder: Path) -> list[str]:
    """Name the programs in a group that use the most CPU, and how many processes of each there are.

    Each counts by what it has used in its whole life: one that came a minute ago does not rank behind those that have
    been there for days.
    """
    now = time.time()
    cores: defaultdict[str, float] = defaultdict(float)
    numbers: Counter[str] = Counter()
    for pid in islice(processes(folder), LOOKED_AT):
        with suppress(psutil.Error):  # it has ended meanwhile
            process = psutil.Process(pid)
            name, times = in_one_line(process.name()), process.cpu_times()
            cores[name] += (times.user + times.system) / max(1.0, now - process.create_time())
            numbers[name] += 1
    names = nlargest(NAMED, cores, key=cores.__getitem__)
    return [name if numbers[name] == 1 else f"{name} ({numbers[name]})" for name in names]


def processes(folder: Path) -> Iterator[int]:
    """Give the ids of the processes in a group; of a group that has none, of those in the groups below it."""
    own = pids_in(folder)
    if own:
        yield from own
        return
    for group in fitting(folder, "*/**"):
        yield from pids_in(folder / group)


def pids_in(folder: Path) -> list[int]:
    """Read the processes of one group; those outside of this process's PID namespace are all called 0."""
    try:
        return [pid for line in (folder / "cgroup.procs").read_text(encoding="utf-8").split() if (pid := int(line))]
    except (OSError, ValueError):
        return []


def why_not_mine(group: str, snapshot: Snapshot, hierarchy: Hierarchy) -> str | None:
    """Say why a group cannot be called the operator's own; ``None`` where it can."""
    if group == ROOT:
        return "what runs in no group of its own cannot be told apart"
    if not group or {"", ".", ".."} & set(group.split("/")) or not hierarchy.folder(group).is_dir():
        return "no such control group"
    for one in snapshot.components:
        if group in chain(one.cgroup):
            return f"component {one.name} is in it"
        if one.cgroup in chain(group):
            return f"it is part of component {one.name}"
    return None
