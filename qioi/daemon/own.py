"""The daemon's own place among the control groups, and the priority of its loop."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from qioi.daemon.realtime import Realtime, keep_to_itself
from qioi.discovery.cgroups import cpu_path
from qioi.kernel.hierarchy import Hierarchy
from qioi.kernel.patterns import fitting
from qioi.settings.config import Config

log = logging.getLogger("qioi")

HIDDEN = "a cgroup namespace hides the daemon's group: --cgroupns host shows it"


def own_cgroup(hierarchy: Hierarchy, account: Path = Path("/proc/self/cgroup")) -> str | None:
    """Give the daemon's own group, relative to the CPU controller's mount; ``None``: see :func:`why_none`.

    In a cgroup namespace the kernel's account begins at that one's root, and the mount may still be the host's, as in a
    pod. Then the group is the one below the mount that has this process.
    """
    path = cpu_path(os.fsdecode(account.read_bytes()), hierarchy.version) or ""
    group = path.strip("/")
    if others_in(hierarchy.folder(group)) is None:
        below = fitting(hierarchy.mount, "**")  # os.walk() does not go into trees that are a thousand deep
        group = next((one for one in below if others_in(hierarchy.folder(one)) is not None), "")
    return group or None


def why_none(hierarchy: Hierarchy) -> str:
    """Say why the daemon has no group of its own."""
    if others_in(hierarchy.mount) is None:
        return HIDDEN
    # Of a host's root groups, all have a release_agent on v1, and none has a cgroup.type on v2 (cgroups(7)).
    if hierarchy.version == 1 and not (hierarchy.mount / "release_agent").exists():
        return "the mount begins at the daemon's group: --cgroupns host -v /sys/fs/cgroup:/sys/fs/cgroup shows more"
    if hierarchy.version == 2 and (hierarchy.mount / "cgroup.type").exists():
        return HIDDEN
    return "the daemon runs in the root control group, which has no shares"


def competing(group: str) -> str:
    """Give the group whose shares protect a daemon in ``group``: in a pod it is the pod's, not its container's."""
    pod, _, container = group.rpartition("/")
    return pod if container and "pod" in pod.rpartition("/")[2] and "kubepods" in pod else group


class Company:
    """Whether the daemon is alone in its control group, so that the group's shares favour nothing else.

    A change counts if two looks in a row see it: a health check or a reload's ``kill`` is in the group for a moment.
    """

    def __init__(self, folder: Path) -> None:
        """Look once, before the daemon has children: what an entrypoint has left is a child, and no part of it."""
        self._folder = folder
        self._strangers = others_in(folder)
        self.alone = self._seen = self._is_alone()

    def look(self) -> None:
        """Look once more."""
        before, self._seen = self._seen, self._is_alone()
        if self._seen == before:
            self.alone = self._seen

    def _is_alone(self) -> bool:
        """Whether the group has no group below it, and no process but this one and the children that it has made."""
        try:
            others, own = others_in(self._folder), str(os.getpid())
            return (
                others is not None
                and others.isdisjoint(self._strangers or ())
                and not any(entry.is_dir() for entry in self._folder.iterdir())
                and all(parent_of(one) == own for one in others)
            )
        except OSError:
            return False


def others_in(group: Path) -> frozenset[str] | None:
    """Name the processes of a control group without this one; ``None`` where this one is not seen in it."""
    own = str(os.getpid())
    try:
        processes = frozenset((group / "cgroup.procs").read_text(encoding="utf-8").split())
    except OSError:
        return None
    return processes - {own} if own in processes else None


def parent_of(process: str) -> str:
    """Read field 4 of /proc/PID/stat (proc(5)); the name before it may hold anything. OSError: the process is gone."""
    return Path(f"/proc/{process}/stat").read_text(errors="replace", encoding="utf-8").rpartition(")")[2].split()[1]


def protect_loop(nice: int | None, realtime: Realtime) -> str | None:
    """Give the loop priority, because interference would starve it too; say why if all priority is refused.

    Where real-time is refused (a group without cpu.rt_runtime_us), the nice value remains. It has no effect against
    work in other groups.
    """
    refusals = []
    keep_to_itself()
    if nice is not None:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        except OSError as error:
            refusals.append(f"nice {nice}: {error.strerror}")
    if realtime.wanted:
        if (refusal := realtime.take()) is None:
            return None
        refusals.append(refusal)
    if not refusals:
        return None
    return f"own protection: {'; '.join(refusals)}: the loop may run late on a busy host"


def protect_itself(config: Config) -> Realtime:
    """Give the loop priority, which ends with the process; return its real-time priority, to be looked at on."""
    realtime = Realtime(config.own.realtime)
    refusal = protect_loop(config.own.nice, realtime)
    if refusal:
        log.warning("%s", refusal)
    return realtime
