"""Check what the daemon needs of its host before it begins: the CPU controller, a state folder, groups and logs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from qioi.controller.guard.owners import Nobody, Owners
from qioi.controller.levers.choose import choose_access
from qioi.controller.levers.files import Access, explain
from qioi.daemon.lock import HostLock, LockedError, TreeLock
from qioi.discovery.owners import EngineOwners
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.files import KernelFiles, allow_files
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy
from qioi.settings.config import Config

log = logging.getLogger("qioi")


class StartError(Exception):
    """The daemon cannot start. ``problems`` are complete lines."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Host:
    """The CPU controller of this host, the access to its values, and its small files, kept open."""

    hierarchy: Hierarchy
    access: Access
    files: KernelFiles


def occupy(config: Config, cleanup: ExitStack) -> Host:
    """Find the CPU controller, and lock the host against other daemons until ``cleanup``. StartError."""
    hierarchy, access = means(config)
    prepare_state(config.state_dir)
    try:
        cleanup.callback(HostLock(config.state_dir).close)
        if not config.dry_run:  # a dry run writes nothing
            cleanup.callback(TreeLock(hierarchy.mount).close)
    except LockedError as error:
        raise StartError(f"{error}; stop that one first") from None
    allow_files()
    files = KernelFiles()
    cleanup.callback(files.close)
    return Host(hierarchy, access, files)


def means(config: Config) -> tuple[Hierarchy, Access]:
    """Find the CPU controller and the access to its values. StartError."""
    try:
        hierarchy = find_hierarchy()
        # Docker's groups are written like all others; the guard tells the engine.
        return hierarchy, choose_access("auto" if config.actuator == "docker" else config.actuator, hierarchy)
    except CgroupError as error:
        raise StartError(str(error)) from None


def record_keepers(config: Config, hierarchy: Hierarchy, cleanup: ExitStack) -> Owners:
    """Choose the owners to tell of shares: engines and systemd, unless the configuration wants the files alone."""
    if not config.discovers or config.actuator not in ("auto", "docker"):
        return Nobody()
    owners = EngineOwners(hierarchy, config.record_dir)
    cleanup.callback(owners.close)
    return owners


def prepare_state(folder: Path) -> None:
    """Make the state folder, and check that it can be written. StartError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        raise StartError(f"state_dir {folder}: {error.strerror}: accepted is a folder that can be made") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartError(f"state_dir {folder}: no right to write there: accepted is a folder of the daemon's own")


class Lack(NamedTuple):
    """What the host lacks for a component of the fixed list: a complete line, and whether it is the group itself."""

    component: str
    line: str
    group: bool = False


def lacking(config: Config, hierarchy: Hierarchy, access: Access) -> Iterator[Lack]:
    """Name every control group and log of the fixed list that is missing or not usable."""
    for component in config.components:
        name, where = component.name, f"{config.file}: component {component.name}"
        try:
            access.read(component.cgroup)
            if not config.dry_run and (why := unwritable(hierarchy, component.cgroup)):
                yield Lack(name, f"{where}: cgroup: {why}")
        except CgroupError as error:
            gone = isinstance(error, CgroupGoneError)
            yield Lack(name, f"{where}: cgroup: {error}: accepted is a group that exists", gone)
        if component.log and (why := unreadable(component.log)):
            yield Lack(name, f"{where}: log: {component.log}: {why}: accepted is a readable file")


def unreadable(log: str) -> str | None:
    """Say why a log cannot be followed, if it cannot."""
    if os.access(log, os.R_OK):
        return None if Path(log).is_file() else "no regular file"
    # Path.exists() would raise where this user may not look.
    return "no right to read" if os.access(log, os.F_OK) else "no such file, or no right to look"


def unwritable(hierarchy: Hierarchy, path: str) -> str | None:
    """Say why a group's weight cannot be written, if it cannot. CgroupError: the group is gone."""
    file = hierarchy.folder(path) / hierarchy.file
    if os.access(file, os.W_OK):
        return None
    try:
        owner, read_only = file.stat().st_uid, bool(os.statvfs(file).f_flag & os.ST_RDONLY)
    except OSError as error:
        raise explain(error.errno or 0, hierarchy, path) from error
    # access(2) goes by the real user.
    return f"{file}: no right to write: {why_not_written(owner, os.getuid(), read_only=read_only)}"


def why_not_written(owner: int, user: int, *, read_only: bool) -> str:
    """Say what ``user`` lacks to write a file of ``owner``. Root may, too: a service has its unit's capabilities."""
    if read_only:
        return "it is mounted read-only: accepted is a mount that can be written"
    if owner == user:
        return "its mode forbids it: accepted are a mode by which its owner may, and CAP_DAC_OVERRIDE"
    return f"it is user {owner}'s, and this is user {user}: accepted are that user and CAP_DAC_OVERRIDE"


def judge(
    config: Config, hierarchy: Hierarchy, access: Access, *, others: bool = False
) -> tuple[tuple[str, ...], list[Lack]]:
    """Give the lines that say why the daemon does not start, or, where it does, what it lacks until that comes.

    A component may come later than the daemon at a boot, or be stopped while the daemon is restarted: the others are
    to be protected meanwhile. One whose group is there has its log, too. ``others``: components beside these are
    watched already.
    """
    lacks = list(lacking(config, hierarchy, access))
    away = {one.component for one in lacks if one.group}
    anybody = others or config.discovers or any(one.name not in away for one in config.components)
    if not anybody or any(one.component not in away for one in lacks):
        return tuple(one.line for one in lacks), []
    return (), lacks


def require(config: Config, hierarchy: Hierarchy, access: Access) -> None:
    """Warn of listed components that are not there. StartError: none is there, or something is not as it has to be."""
    problems, lacks = judge(config, hierarchy, access)
    if problems:
        raise StartError(*problems)
    warn_of(lacks)


def warn_of(lacks: Iterable[Lack]) -> None:
    """Warn of what a daemon lacks until it comes."""
    for one in lacks:
        log.warning("%s; it is taken up when it comes", one.line)
