"""Who has a group's share on a record of its own, beside the kernel: a container engine, systemd.

Such an owner writes its record into the group again whenever it makes or changes the group. So it must know
every share that lasts, and its record must be put back as well. The guard writes the group itself, at once,
and tells the owner, who may take its time.
"""

from __future__ import annotations

from collections.abc import Mapping

from qioi.controller.guard.journal import Entry
from qioi.model import Owner


class Owners:
    """All owners there are; this one is told nothing. Values are in the group's file's own unit."""

    def tell(self, entry: Entry) -> None:
        """Have the record of the entry's owner say the last of what is ours, soon. Never waits."""

    def release(self, entry: Entry) -> None:
        """Have the record say the original, soon, if it says one of what is ours. Never waits."""

    def leave(self, owner: Owner) -> None:
        """Tell nothing more of what was asked for: somebody else has changed the share."""

    def kept(self, owner: Owner | None) -> tuple[int, ...]:
        """Values of ours that the record may hold, or that are on their way to it; the original until it was told."""
        return ()

    def settle(self) -> Mapping[Owner, str]:
        """Wait until all that was asked for is done; say which records could not be reached, and why."""
        return {}


#: Where no owner is told.
Nobody = Owners
