"""Restores what a killed daemon of a lab has left changed outside of the lab, as the share of the engine's group."""

from __future__ import annotations

from pathlib import Path

from qioi.daemon.lock import HostLock, LockedError, LockError
from qioi.daemon.recover import recover, tell
from qioi.kernel.hierarchy import Hierarchy
from qioi.processes.errors import LabError
from qioi.settings.config import default_record_dir


def restore_left(state_dir: Path, hierarchy: Hierarchy) -> None:
    """Do for a lab's daemon what ``qioi restore`` does; LabError with a line for each value unless all is back.

    An owner's record that it did not take back, since it does not answer, counts too: the caller removes the journal,
    which alone has the original.
    """
    if not state_dir.is_dir():
        return
    try:
        lock = HostLock(state_dir)
    except (LockedError, LockError) as error:
        raise LabError(str(error)) from None
    try:
        recovery = recover(state_dir, default_record_dir(state_dir), hierarchy)
    finally:
        lock.close()
    if not recovery.clean or recovery.left:
        lines: list[str] = []
        tell(recovery, lines.append)
        raise LabError("\n".join(lines))
