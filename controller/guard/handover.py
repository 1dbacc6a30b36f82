"""``on_exit: keep``: a daemon that stops leaves its shares to the next one, so that a restart is not felt.

The journal stays, and beside it a mark that this was meant. Without the mark (a crash, a kill) what the
journal names is restored as ever. The mark is gone as soon as the next daemon has taken over.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Outcome


def mark(state_dir: Path) -> Path:
    """Name the file whose presence says that the shares are left as they are on purpose."""
    return state_dir / "kept"


def keep(state_dir: Path, guard: Guard, own: str | None) -> None:
    """Leave everything but the daemon's own group ``own`` as it is. OSError: it could not be written down."""
    if own is not None:
        guard.release(own)
    guard.keep()
    if Journal(state_dir).file.exists():
        mark(state_dir).touch()


def take_over(state_dir: Path, guard: Guard, groups: Collection[str], *, owned: bool = False) -> list[Outcome] | None:
    """Let the guard go on with what was kept of these groups, and put the rest back; say what came of the rest.

    ``owned``: groups that have an owner stay too, since they are found only later.
    ``None``: nothing was kept on purpose, or the journal cannot be believed, so that all of it is to be restored.
    """
    if not mark(state_dir).exists():
        return None
    try:
        loaded = Journal(state_dir).load()
    except OSError:
        return None
    finally:
        mark(state_dir).unlink()
    if loaded.problems:
        return None
    outcomes = []
    for entry in loaded.entries:
        if guard.adopt(entry) and entry.path not in groups and not (owned and entry.owner):
            outcomes.append(guard.release(entry.path))
    return [outcome for outcome in outcomes if outcome is not None]
