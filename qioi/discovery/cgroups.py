"""Which control group a container is in, from the kernel's own account of its first process.

The path depends on the engine's driver (cgroupfs: ``docker/ID``, systemd: ``system.slice/docker-ID.scope``), on
``--cgroup-parent`` and on the cgroup version; but its folder has the container's id in its name.
Source: cgroups(7), /proc/PID/cgroup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

PROC = Path("/proc")
#: An id that an engine has made.
FULL_ID = re.compile("[0-9a-f]{64}")
#: The process id of the kernel's thread that makes all others, in the host's own PID namespace.
KTHREADD = 2


class NoGroupError(Exception):
    """The container's group cannot be told; the message says why."""


def container_group(pid: int, container: str, version: int, proc: Path = PROC, above: str = "") -> str | None:
    """Give the group of a container below the CPU controller's mount; ``None`` if its process has ended.

    ``above`` is the name of the group in which the engine makes it unless it is told otherwise.
    """
    try:
        text = os.fsdecode((proc / str(pid) / "cgroup").read_bytes())  # names of groups are bytes
    except (FileNotFoundError, ProcessLookupError):
        return None
    path = cpu_path(text, version)
    if path is None:
        raise NoGroupError(f"process {pid} is in no control group that has the CPU controller")
    parts = path.strip("/").split("/")
    depth = depth_of(container, parts, above)
    if depth is None:  # another process may have the number meanwhile
        raise NoGroupError(f"process {pid} is in control group {path}, which does not name the container")
    if ".." in parts:
        raise NoGroupError(f"control group {path} is outside of what this daemon sees (a cgroup namespace)")
    return "/".join(parts[:depth])  # a container may have groups of its own below


def depth_of(container: str, parts: Sequence[str], above: str) -> int | None:
    """Say how many parts of a path lead to a container's group: to the outermost that is named best after it.

    An id of an engine's own making is in no other name. Clients of containerd give any: the group of a namespace, or
    that of the shim, may have a short one in its name.
    """

    def likeness(depth: int) -> int:
        part = parts[depth - 1]
        if FULL_ID.fullmatch(container):
            return container in part
        if part == container:
            return 3 if depth > 1 and parts[depth - 2] == above else 2
        return part == f"{container}.scope" or part.endswith(f"-{container}.scope")

    best = max(range(1, len(parts) + 1), key=likeness)
    return best if likeness(best) else None


def is_of_user(group: str, uid: int) -> bool:
    """Whether a group is below the slice in which systemd has all that is a user's own (user@.service(5))."""
    return group.startswith(f"user.slice/user-{uid}.slice/")


def cpu_path(text: str, version: int) -> str | None:
    """Find the line of the hierarchy that has the CPU controller."""
    for line in filter(None, text.split("\n")):  # other ends of lines than this may stand in names
        number, controllers, path = line.split(":", 2)
        if (version == 1 and "cpu" in controllers.split(",")) or (version == 2 and number == "0"):
            return path
    return None


def sees_the_host(proc: Path = PROC) -> bool:
    """Whether the host's processes are seen, and not those of a PID namespace only."""
    try:
        return (proc / str(KTHREADD) / "comm").read_bytes() == b"kthreadd\n"
    except OSError:
        return False


def unseen(pid: int) -> str:
    """Say that a container's process runs, and is not among those that are seen."""
    return f"its process {pid} cannot be seen: accepted is a daemon in the host's PID namespace (--pid host)"
