"""A tree of control groups: one parent, one child per program, removed as one.

The parent keeps the default share, as the parent group of a container engine does. A larger share would hide part of
the noise, and would starve what stays in the root group, such as the process that measures.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qioi.model import DEFAULT_SHARES, Role
from qioi.processes.cgroups import Group, Mounts, enable_cpu, find_mounts, remove_directories, wait_empty
from qioi.processes.errors import LabError
from qioi.processes.launch import Running, launch

#: Seconds that killed processes have to end. A busy host or a slow disk delays their end.
DYING = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """One program to start in a group of its own, which is called ``name``.

    ``folders``, ``role`` and ``channels`` are for containers: a container sees no other folder of the host, and the
    daemon finds components by the labels that are made of role and channels.
    """

    name: str
    argv: Sequence[str]
    shares: int = DEFAULT_SHARES
    log: Path | None = None
    cwd: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    die_with_parent: bool = False
    folders: Sequence[Path] = ()
    role: Role | None = None
    channels: Sequence[str] = ()


class Tree:
    """The groups of one lab, below the parent ``name``."""

    def __init__(self, name: str, mounts: Mounts | None = None) -> None:
        self.name = name
        self.mounts = mounts or find_mounts()
        self.root = Group(self.mounts, name)

    def create(self) -> None:
        """Make the parent group."""
        if self.mounts.hierarchy.version == 2:
            enable_cpu(self.mounts.hierarchy.mount)
        self.root.create()
        self.root.enable_cpu_for_children()

    def group(self, name: str) -> Group:
        """Name a child; it exists once created."""
        return Group(self.mounts, f"{self.name}/{name}")

    def plain_group(self, name: str) -> Group:
        """Name the group that a process on the host may join under that name."""
        return self.group(name)

    def children(self) -> tuple[Group, ...]:
        """List the child groups that exist in any mount."""
        names: set[str] = set()
        for directory in self.root.directories:
            if directory.is_dir():
                names.update(entry.name for entry in directory.iterdir() if entry.is_dir())
        return tuple(self.group(name) for name in sorted(names))

    def pids(self) -> tuple[int, ...]:
        """List the processes in the parent and all children."""
        groups = (self.root, *self.children())
        return tuple(sorted({pid for group in groups for pid in group.pids()}))

    def left(self) -> bool:
        """Whether any group of the tree exists."""
        return bool(self.children()) or self.root.exists

    def prepare(self, name: str, shares: int = DEFAULT_SHARES, folders: Sequence[Path] = ()) -> None:
        """Make the place for a program that is started later; ``folders`` as in :class:`Program`."""
        self.group(name).create(shares)

    def start(self, program: Program) -> Running:
        """Start a program in a child of its own; see :func:`qioi.processes.launch.launch`."""
        group = self.group(program.name).create(program.shares)
        return launch(
            program.argv,
            group,
            log=program.log,
            cwd=program.cwd,
            environment=program.environment,
            die_with_parent=program.die_with_parent,
        )

    def log_of(self, name: str) -> tuple[Path, str] | None:
        """Say where a program's log is, and its format, if it is not the file that the program was started with."""
        return None

    def save_logs(self) -> None:
        """Write all logs to the files that the programs were started with; processes write there themselves."""

    def remove(self, groups: tuple[Group, ...] | None = None, grace: float = 5.0) -> None:
        """End what runs in the groups (default: all) and remove them; without ``groups`` the parent goes too.

        Processes get SIGTERM, and SIGKILL after ``grace`` seconds. A group that is gone is no error, so the call can
        be repeated.
        """
        chosen = groups if groups is not None else (*self.children(), self.root)
        for group in chosen:
            group.signal(signal.SIGTERM)
        wait_empty(chosen, grace)
        deadline = time.monotonic() + DYING
        while sum(group.signal(signal.SIGKILL) for group in chosen):
            wait_empty(chosen, 0.2)
            if time.monotonic() > deadline:
                left = [pid for group in chosen for pid in group.pids()]
                raise LabError(f"processes {left} in {self.root.directories[0]} do not die, even by SIGKILL")
        for group in chosen:
            remove_directories(group)

    def __repr__(self) -> str:
        return f"Tree({str(self.mounts.hierarchy.mount / self.name)!r})"
