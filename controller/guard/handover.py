"""``on_exit: keep``: a daemon that stops leaves its shares to the next one, so that a restart does not change them.

The journal stays, and a mark beside it says that it stays on purpose. Without the mark (a crash, a kill) the next
daemon restores what the journal names. The next daemon removes the mark when it takes over.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal, write_file
from qioi.controller.guard.restore import Outcome

log = logging.getLogger("qioi")


def mark(state_dir: Path) -> Path:
    """Name the file whose presence says that the shares were kept on purpose."""
    return state_dir / "kept"


def keep(state_dir: Path, guard: Guard, own: str | None) -> Outcome | None:
    """Leave every value as it is, except in the daemon's own group ``own``: give the outcome of restoring that one.

    OSError: the journal was not written.
    """
    outcome = guard.release(own) if own is not None else None
    guard.keep()
    if Journal(state_dir).file.exists():
        write_file(mark(state_dir), b"", durable=False)
    return outcome


def unmark(state_dir: Path) -> str | None:
    """Remove the mark, if it is there; say why it stays."""
    try:
        if mark(state_dir).exists():  # on a read-only disk unlinking what is not there fails as well
            mark(state_dir).unlink()
    except OSError as error:
        return (
            f"{mark(state_dir)}: {error.strerror}: it stays, and says of a crash, too, that shares were kept on purpose"
        )
    return None


def take_over(state_dir: Path, guard: Guard, groups: Collection[str] | None) -> list[Outcome] | None:
    """Adopt the kept shares of these groups and restore all others; give the outcomes of the restored ones.

    Without ``groups`` all are adopted: where components are found, whose a share is comes out later. The caller then
    restores what nobody wants.
    ``None``: nothing was kept on purpose, or the journal is damaged, or an owner has a share on record and the guard
    tells none; the caller restores all of it.
    """
    if not mark(state_dir).exists():
        return None
    if (problem := unmark(state_dir)) is not None:
        # The shares go over all the same: where the mark cannot be removed, the journal cannot be written, most likely,
        # and a share that was put back could not be raised again.
        log.warning("%s", problem)
    try:
        loaded = Journal(state_dir).load()
    except OSError:
        return None
    if loaded.problems:
        return None
    if not guard.tells and any(entry.owner for entry in loaded.entries):
        return None
    outcomes = []
    for entry in loaded.entries:
        if guard.adopt(entry) and groups is not None and entry.path not in groups:
            outcomes.append(guard.release(entry.path))
    return [outcome for outcome in outcomes if outcome is not None]
