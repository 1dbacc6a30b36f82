"""Which control group a container is in, from the kernel's own account of its first process.

The path depends on the engine's driver (cgroupfs: ``docker/ID``, systemd: ``system.slice/docker-ID.scope``), on
``--cgroup-parent`` and on the cgroup version; but its folder always has the container's id in its name.
Source: cgroups(7), /proc/PID/cgroup.
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
#: The process id of the kernel's thread that makes all others, in the host's own PID namespace.
KTHREADD = 2


class NoGroupError(Exception):
    """The container's group cannot be told; the message says why."""


def container_group(pid: int, container: str, version: int, proc: Path = PROC) -> str | None:
    """Give the group of a container below the CPU controller's mount; ``None`` if its process has ended."""
    try:
        text = os.fsdecode((proc / str(pid) / "cgroup").read_bytes())  # names of groups are bytes
    except (FileNotFoundError, ProcessLookupError):
        return None
    path = cpu_path(text, version)
    if path is None:
        raise NoGroupError(f"process {pid} is in no control group that has the CPU controller")
    parts = path.strip("/").split("/")
    depth = next((depth for depth, part in enumerate(parts, 1) if container in part), None)
    if depth is None:  # another process may have the number meanwhile
        raise NoGroupError(f"process {pid} is in control group {path}, which does not name the container")
    if ".." in parts:
        raise NoGroupError(f"control group {path} is outside of what this daemon sees (a cgroup namespace)")
    return "/".join(parts[:depth])  # a container may have groups of its own below


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
