"""The guard of shares: it holds groups, reads their shares in every period, and hands them over to the next daemon.

The writer (writer.py) writes and restores a share.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.owners import Owners
from qioi.controller.guard.writer import Writer
from qioi.controller.levers.files import Access
from qioi.controller.levers.shares import Shares
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.files import KernelFiles
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Owner


class Guard(Writer[str]):
    """Holds groups by path. All shares are in v1 units."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        access: Access,
        journal: Journal,
        owners: Owners | None = None,
        files: KernelFiles | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with nothing held. ``files`` keeps cgroup files open, which makes reading cheap."""
        self._shares = Shares(hierarchy, access, files)
        super().__init__(self._shares, journal, owners, clock=clock)

    def hold(self, path: str, owner: Owner | None = None) -> int:
        """Hold a group without writing to it; return the share it was found with.

        Its owner may become known only after the group was first held, and may change later.
        """
        held = self._held.get(path)
        if held is None or not self._shares.keeps(path):  # reading an open file fails when its group is gone
            held = self.meet(path, path, owner)
        if owner is not None and owner != held.owner and path not in self._foreign:
            if held.owner is None:
                self._name(held, owner)
            elif not self._changed(held):
                self._held[path] = replace(held, owner=owner)
        return self.found(path)

    def _name(self, held: Entry, owner: Owner) -> None:
        """Give a held group its owner, and tell the owner our value that is in force."""
        entry = replace(held, owner=owner)
        if held.ours:
            if self._lever.read(held.path) != held.ours[-1]:
                return  # foreign, or still being written: the owner must not record it
            try:
                self._store({**self._held, held.path: entry})
            except OSError:
                return  # a later look tells the owner: nothing is told that the journal does not hold
            self._owners.tell(replace(entry, ours=(held.original, held.ours[-1])))
        self._held[held.path] = entry

    def look(self, path: str, owner: Owner | None = None) -> int:
        """Hold a group and read the share in force; if the group was replaced meanwhile, hold and read the new one."""
        held = self._held.get(path)
        known = owner is None or (held is not None and (owner is held.owner or owner == held.owner))
        if held is None or not known or not self._shares.keeps(path):
            self.hold(path, owner)
        try:
            return self.shares(path)
        except CgroupGoneError:
            self.hold(path, owner)
            return self.shares(path)

    def found(self, path: str) -> int:
        """Give the share that a held group was found with."""
        return self._shares.hierarchy.found(self._held[path].original)

    def raw(self, path: str, shares: int) -> int:
        """Convert a share of a held group into its file's own unit."""
        return self._shares.raw(shares, self._held[path].original)

    def is_same(self, path: str, one: int, other: int) -> bool:
        """Whether two shares of a held group are one value in its file's own unit."""
        return one == other or self.raw(path, one) == self.raw(path, other)

    def weigh(self, path: str) -> int | None:
        """Give the weight that a group was found with, in its file's own unit; ``None`` for one that is not held."""
        held = self._held.get(path)
        return None if held is None else held.original

    def raised(self) -> frozenset[str]:
        """Name the groups whose share, as last seen, is above the one they were found with."""
        held, found = self._held, self._shares.hierarchy.found
        return frozenset(
            path
            for path, shares in self._last.items()
            if shares > found(held[path].original) and path not in self._foreign
        )

    def shares(self, path: str) -> int:
        """Read the share in force in a held group. A value that others set before our first write is the original."""
        entry = self._held[path]
        self._last.pop(path, None)
        current = self._shares.look(path, entry.identity)
        if path in self._foreign:
            if current == entry.original and self._foreign[path] == math.inf:
                self._rest(path)
        elif current != entry.original and not self._changed(entry):
            entry = self._held[path] = replace(entry, original=self._shares.original(path, current))
        shares = self._last[path] = self._shares.shown(current, entry.original)
        return shares

    def is_set_by_others(self, path: str) -> bool:
        """Whether the share last seen in a held group is somebody else's, also before a write has met it."""
        held, last = self._held.get(path), self._last.get(path)
        if held is None or last is None:
            return False
        return last not in [self._shares.shown(one, held.original) for one in (held.original, *self._ours(held))]

    def last(self, path: str) -> int:
        """Give the share last read, written or found; read it from the kernel only if there is none."""
        return self._last[path] if path in self._last else self.shares(path)

    @property
    def tells(self) -> bool:
        """Whether owners of groups are told of shares."""
        return self._owners.tells

    def owners(self) -> tuple[Owner, ...]:
        """Name the owners of held groups."""
        return tuple(entry.owner for entry in self._held.values() if entry.owner is not None)

    def leave(self, path: str) -> bool:
        """Stop holding a group; say whether it is dropped. A group whose value is ours or was foreign stays held."""
        entry = self._held.get(path)
        if entry is None:
            return True
        if self.is_marked(path) or self._changed(entry):
            try:
                self._shares.check(path, entry.identity)
                return False
            except CgroupGoneError:
                pass
            except CgroupError:  # it cannot be looked at now
                return False
        self.drop(path)
        return True

    def take_up(self, path: str) -> None:
        """Hold a group again that somebody else changed: its present value becomes the original."""
        self.drop(path)
        self.hold(path)

    def adopt(self, entry: Entry) -> bool:
        """Hold a group that an earlier daemon left changed; say whether its value is, or may be, still ours."""
        try:
            ours = self._shares.identity(entry.path) == entry.identity
            current = self._shares.read(entry.path)
        except CgroupGoneError:
            ours, current = False, 0
        except CgroupError:  # it cannot be read now: keep its original
            self.take(entry)
            return True
        if not ours or entry.file != self._shares.file or current not in entry.ours:
            self._outdated = True
            if entry.owner is not None:
                self._former[entry.owner] = entry
                self._owners.release(entry)
            return False
        self.take(entry if entry.owner is not None else replace(entry, ours=(current,)))
        self._see(entry.path, entry, current)
        return True
