"""What keeps a record of shares beside the kernel, as the thread that tells it sees it (owners.py)."""

from __future__ import annotations

from typing import Protocol

from qioi.controller.guard.journal import Entry


class RecordError(Exception):
    """Who keeps the record does not answer, or refuses; the message is one line."""


class RefusedError(RecordError):
    """Who keeps the record answers, but refuses this one; others it may not."""


class UnsuitableError(RefusedError):
    """Who keeps the record answers, and will say the same of this one for as long as it is what it is."""


class NoRecordError(Exception):
    """There is no such record (any more)."""


class Keeper(Protocol):
    """Those who keep records of one kind. An entry's owner names one; values are in the group's file's own unit."""

    def update(self, entry: Entry, wanted: int, only_from: frozenset[int] | None) -> set[int]:
        """Have the record say ``wanted``; if ``only_from`` is given, put it back, and only if it says one of these.

        Gives what of ours is on the record after it. RecordError, NoRecordError.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
