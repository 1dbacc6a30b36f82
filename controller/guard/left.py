"""The journal of a daemon that died: reading it, and storing what of it could not be restored.

No problem with the file itself keeps a value from being restored. Problems are complete lines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from qioi.controller.guard.journal import Entry, Journal

log = logging.getLogger("qioi")


class UnreadError(Exception):
    """A journal is not to be replaced: it cannot be read, or it is damaged and cannot be set aside. A complete line."""

    def __init__(self, file: Path, error: OSError) -> None:
        lost = "the originals in it would be lost: accepted is a journal that can be read, or none"
        super().__init__(f"{file}: {error.strerror}: {lost}")


def read_left(journal: Journal) -> tuple[tuple[Entry, ...], list[str]]:
    """Read the entries that are left; give the problems, too. OSError: no reading it.

    A damaged file is kept for a person. It stays the journal, too, until what could not be restored is stored: a
    recovery that is killed, or meets a full disk, leaves what can be read to the next one. One without a readable entry
    that cannot be set aside is an OSError, so that a recovery does not remove it.
    """
    loaded = journal.load()
    if not loaded.problems:
        return loaded.entries, []
    what = "; ".join(loaded.problems)
    try:
        kept = f"kept as {journal.set_aside()}"
    except OSError as error:
        kept = f"it cannot be set aside: {error.strerror}"
        if not loaded.entries:
            raise OSError(error.errno, f"{what}; {kept}") from None
    return loaded.entries, [f"{journal.file}: {what}: what can be read is restored, the rest is left alone; {kept}"]


def still_left(journal: Journal) -> tuple[Entry, ...]:
    """Read the entries that a recovery could not restore, before a guard stores the journal anew. UnreadError."""
    try:
        return spared(journal)
    except OSError as error:
        raise UnreadError(journal.file, error) from None


def spared(journal: Journal) -> tuple[Entry, ...]:
    """Read the entries of a journal that is to be replaced, and keep a damaged one. OSError: it is to stay."""
    loaded = journal.load()
    if loaded.problems:
        try:
            journal.set_aside()
        except OSError as error:
            raise OSError(error.errno, f"damaged, and cannot be set aside: {error.strerror}") from None
    return loaded.entries


def warn_of_left(state_dir: Path, names: Iterable[str], command: str, running: str | None = None) -> None:
    """Say that a dry run leaves these journals of a daemon before it, and that ``command`` restores what they name.

    ``running`` says which daemon runs on these groups, if one does: the journals may be that one's.
    """
    for file in (state_dir / name for name in names):
        if file.exists() and running is not None:
            log.warning("%s: the journal %s is taken for that one's: a dry run restores nothing", running, file)
        elif file.exists():
            words = "a daemon before this one has left its journal %s: a dry run restores nothing; then run `%s`"
            log.warning(words, file, command)


def store_left(journal: Journal, left: Iterable[Entry], *, durable: bool = True) -> list[str]:
    """Store the entries that could not be restored; give the problem where the file cannot be replaced."""
    try:
        spared(journal)
        journal.store(left, durable=durable)
    except OSError as error:
        return [f"{journal.file}: {error.strerror}: it stays as it was, and names what was restored, too"]
    return []
