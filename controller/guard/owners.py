"""Owners: container engines and systemd, which keep a record of a group's share beside the kernel.

An owner writes its record into the group whenever it makes or changes the group. So it must know every share that
lasts, and its record must be restored as well. The guard writes the group itself, at once, and tells the owner,
which follows later.
"""

from __future__ import annotations

from collections.abc import Mapping

from qioi.controller.guard.journal import Entry
from qioi.model import Owner


class Owners:
    """All owners of this host; this base class tells them nothing. Values are in the unit of the group's file."""

    #: Whether they are told of shares.
    tells = True

    def tell(self, entry: Entry) -> None:
        """Ask the entry's owner to record the last of our values, soon. Never waits."""

    def release(self, entry: Entry) -> None:
        """Ask the entry's owner to record the original, soon, if its record is ours. Never waits."""

    def leave(self, owner: Owner) -> None:
        """Cancel what is still to be told to this owner, because somebody else changed the share."""

    def kept(self, owner: Owner | None) -> tuple[int, ...]:
        """Give our values that the record holds or will soon hold, and the original until the record was written."""
        return ()

    def settle(self) -> Mapping[Owner, str]:
        """Wait until every request is done; say which records could not be reached, and why."""
        return {}


class Nobody(Owners):
    """For a daemon that tells no owner. What an earlier one has told stays on record, for who can put it back."""

    tells = False

    def __init__(self) -> None:
        self._left: dict[Owner, tuple[int, ...]] = {}

    def release(self, entry: Entry) -> None:
        """Note that the owner's record is not put back."""
        if entry.owner is not None:
            self._left[entry.owner] = entry.ours

    def kept(self, owner: Owner | None) -> tuple[int, ...]:
        """Give our values in a record that is not put back."""
        return self._left.get(owner, ()) if owner is not None else ()

    def settle(self) -> Mapping[Owner, str]:
        """Say that these owners were not told."""
        return dict.fromkeys(self._left, "this daemon tells no owner; `qioi restore` does")
