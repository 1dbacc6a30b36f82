"""What a node makes of this machine beyond its own folder, and the way back."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from qioi.processes.errors import LabError

CGROUPS = Path("/sys/fs/cgroup")
#: The hierarchy with the CPU controller: version 1's own, or version 2's only one.
CPU = CGROUPS / "cpu" if (CGROUPS / "cpu").is_dir() else CGROUPS
#: Seconds that the processes of a group may take to end after SIGKILL, and the kernel to let go of the group.
PATIENCE = 20.0


def remove_groups(name: str, patience: float = PATIENCE) -> None:
    """Kill what is in a tree of control groups, and remove it, in every hierarchy. LabError names what is left."""
    trees = [root / name for root in (CGROUPS, *CGROUPS.iterdir())]
    deadline = time.monotonic() + patience
    while left := [tree for tree in trees if tree.is_dir()]:
        kill(members(left))
        for tree in left:
            for folder in sorted((p for p in tree.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            with contextlib.suppress(OSError):
                tree.rmdir()
        if time.monotonic() > deadline:
            stay = ", ".join(map(str, sorted(members(left)))) or "none"
            raise LabError(f"control groups are left: {', '.join(map(str, left))}; processes that do not end: {stay}")
        time.sleep(0.05)


def members(trees: Iterable[Path]) -> set[int]:
    """Name every process in trees of control groups."""
    found = set()
    for tree in trees:
        for one in tree.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):  # the group is gone
                found |= {int(line) for line in one.read_text().split()}
    return found - {0}  # 0 is a process of another pid namespace; kill(2) would take it for our own group


def kill(processes: Iterable[int]) -> None:
    """Kill processes."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
