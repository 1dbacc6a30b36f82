"""The guard: the one writer of shares, and the one who puts them back.

Every change is compare-and-set: journalled first, made only if the value is still the one we left
there (or found), and read back. A value that somebody else has changed since is left alone from then on.

A group may have an owner with a record of its own (owner.py). Then what is ours may come back by the owner's
doing: late, or in a new group of the same container. Such values count as ours as long as they are on record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Outcome, Result, identity, restore_entries
from qioi.controller.levers.files import Access, explain
from qioi.controller.levers.idle import IDLE_WEIGHT, is_idle
from qioi.controller.levers.owner import Nobody, Owners
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.files import NUMBER, KernelFiles, is_gone
from qioi.kernel.hierarchy import MIN_WEIGHT, Hierarchy


class Guard:
    """Holds groups by path: what was found in them, and what is ours in them now."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        access: Access,
        journal: Journal,
        owners: Owners | None = None,
        files: KernelFiles | None = None,
    ) -> None:
        """Begin with nothing held; ``files``, of a kernel's control groups only, make looking cheap."""
        self._hierarchy = hierarchy
        self._prefix, self._suffix = f"{hierarchy.mount}/", f"/{hierarchy.file}"
        self._files = files
        self._access = access
        self._journal = journal
        self._owners: Owners = owners or Nobody()
        self._held: dict[str, Entry] = {}
        self._names: dict[str, str] = {}  # by path: the files of held groups, named once and not in every look
        self._former: dict[str, Entry] = {}  # by owner: groups that are gone, while the record is not put back
        self._last: dict[str, int] = {}  # by path: shares as they were last seen, in v1 units
        self._foreign: set[str] = set()
        self._recorded: set[tuple[str, int, int, int, str]] = set()

    def hold(self, path: str, owner: str = "") -> int:
        """Take a group into care; return the share it was found with, in v1 units. Writes nothing in it.

        On whose record its share is may be learned only after it was first held, and what that record says may change.
        """
        held = self._held.get(path)
        # Where its file is kept open and the group gone, reading it will say so.
        if held is None or self._files is None or not self._files.keeps(self._file(path)):
            device, inode = identity(self._hierarchy, path)
            if held is None or (held.device, held.inode) != (device, inode):
                self.drop(path)
                held = self._held[path] = self._meet(Entry(path, self._hierarchy.file, device, inode, 0, (), owner))
                self._names[path] = self._file(path)
        if owner and owner != held.owner and path not in self._foreign:
            if not held.owner:
                self._name(held, owner)
            elif not self._changed(held):
                self._held[path] = replace(held, owner=owner)
        return self.found(path)

    def _name(self, held: Entry, owner: str) -> None:
        """Give a held group its owner, and have that know of what is in force by us."""
        entry = replace(held, owner=owner)
        if held.ours:
            if self._access.read(held.path) != held.ours[-1]:
                return  # changed by somebody else, or on its way: not for the owner's record
            try:
                self._store({**self._held, held.path: entry})
            except OSError:
                return  # told with a later look: nothing is without the journal
            self._owners.tell(replace(entry, ours=(held.original, held.ours[-1])))
        self._held[held.path] = entry

    def look(self, path: str, owner: str = "") -> int:
        """Hold a group and read the share in force; where it was replaced meanwhile, those of the new one."""
        held = self._held.get(path)
        if (
            held is None
            or (owner and owner != held.owner)
            or self._files is None
            or not self._files.keeps(self._file(path))
        ):
            self.hold(path, owner)
        try:
            return self.shares(path)
        except CgroupGoneError:
            self.hold(path, owner)
            return self.shares(path)

    def _meet(self, entry: Entry) -> Entry:
        """Fill in what a group was found with. A container that starts again has what is on its record."""
        found = self._sound(entry.path, self._access.read(entry.path))
        former = self._former.pop(entry.owner, None)
        if former is not None and former.file == entry.file and found in former.ours:
            return replace(entry, original=former.original, ours=(found, former.original))
        return replace(entry, original=found)

    def record(self) -> None:
        """Make the originals of all held groups durable, so that no later write waits for a disk. OSError."""
        self._store(self._held)

    def found(self, path: str) -> int:
        """Give the share that a held group was found with, in v1 units."""
        return self._hierarchy.found(self._held[path].original)

    def raw(self, path: str, shares: int) -> int:
        """Convert a share of a held group into its file's own unit."""
        return self._hierarchy.raw(shares, self._held[path].original)

    def holds(self, path: str) -> bool:
        """Whether a group is in care."""
        return path in self._held

    def changed(self) -> tuple[str, ...]:
        """Name the groups in which something of ours is, or may be."""
        return tuple(path for path, entry in self._held.items() if path not in self._foreign and self._changed(entry))

    def raised(self) -> frozenset[str]:
        """Name the groups that have more than they were found with, as they were last seen."""
        held, found = self._held, self._hierarchy.found
        return frozenset(
            path
            for path, shares in self._last.items()
            if shares > found(held[path].original) and path not in self._foreign
        )

    def shares(self, path: str) -> int:
        """Read the share in force in a held group, in v1 units. What others set before we do is the original."""
        entry = self._held[path]
        self._last.pop(path, None)
        current = self._current(entry)
        if current != entry.original and path not in self._foreign and not self._changed(entry):
            entry = self._held[path] = replace(entry, original=self._sound(path, current))
        shares = self._last[path] = self._hierarchy.shares(current, entry.original)
        return shares

    def _sound(self, path: str, value: int) -> int:
        """Refuse for an original what is no weight: an idle group has none, and takes none."""
        if value < MIN_WEIGHT or (value == IDLE_WEIGHT[self._hierarchy.version] and is_idle(self._hierarchy, path)):
            folder = self._hierarchy.folder(path)
            raise CgroupError(
                f"{folder}/{self._hierarchy.file} is {value}: the group is idle (cpu.idle): nothing raises it"
            )
        return value

    def _current(self, entry: Entry) -> int:
        """Read the value of the very group that is held."""
        file = self._file(entry.path)
        if self._files is None:
            self._check_identity(entry)
            return self._access.read(entry.path)
        kept = self._files.keeps(file)
        try:
            current = int(self._files.read(file, NUMBER))
        except OSError as error:
            if kept and is_gone(error):
                raise CgroupGoneError(f"{self._hierarchy.folder(entry.path)}: the control group is gone") from None
            raise explain(error.errno or 0, self._hierarchy, entry.path) from error
        except ValueError:
            raise CgroupError(f"{file}: no number") from None
        if not kept:  # opened just now: of this group, or of another one that has its path
            try:
                self._check_identity(entry)
            except CgroupError:
                self._files.forget(file)  # it would count as this group's from now on
                raise
        return current

    def _file(self, path: str) -> str:
        return self._names.get(path) or f"{self._prefix}{path}{self._suffix}"

    def last(self, path: str) -> int:
        """Give what :meth:`shares` said last, or was written or found since; only if there is none, ask the kernel."""
        return self._last[path] if path in self._last else self.shares(path)

    def owners(self) -> tuple[str, ...]:
        """Name the records that held groups have beside the kernel."""
        return tuple(entry.owner for entry in self._held.values() if entry.owner)

    def is_foreign(self, path: str) -> bool:
        """Whether somebody else has changed the value since, so that it is left alone."""
        return path in self._foreign

    def drop(self, path: str) -> None:
        """Let go of a group that is gone. What its owner has on record of ours is put back by the owner."""
        entry = self._held.pop(path, None)
        self._last.pop(path, None)
        self._names.pop(path, None)
        if entry is not None and entry.owner and self._changed(entry):
            entry = self._former[entry.owner] = replace(entry, ours=self._ours(entry))
            self._owners.release(entry)
        self._foreign.discard(path)

    def leave(self, path: str) -> bool:
        """Let go of a group that is not looked at any more; say whether that was so. Not while ours, or foreign."""
        entry = self._held.get(path)
        if entry is None:
            return True
        if path in self._foreign or self._changed(entry):
            try:
                self._check_identity(entry)
                return False
            except CgroupGoneError:
                pass
        self.drop(path)
        return True

    def _ours(self, entry: Entry) -> tuple[int, ...]:
        """Give all values of ours that may be in force in a group, now or by its owner's doing."""
        return tuple(dict.fromkeys((*entry.ours, *self._owners.kept(entry.owner))))

    def _changed(self, entry: Entry) -> bool:
        """Whether anything but the original may be in force by our doing."""
        return any(value != entry.original for value in self._ours(entry))

    def apply(self, wanted: Mapping[str, int]) -> list[Outcome]:
        """Set shares (v1 units) of held groups: compare, journal all, then write one by one."""
        outcomes: list[Outcome] = []
        intents: dict[str, Entry] = {}
        for path, shares in wanted.items():
            try:
                self._compare(path, shares, intents, outcomes)
            except CgroupError as error:
                outcomes.append(self._failed(path, error))
        if not intents:
            return outcomes
        try:
            self._store({**self._held, **intents})
        except OSError as error:
            why = f"journal {self._journal.file}: {error.strerror}: nothing is written without it"
            return outcomes + [Outcome(path, Result.FAILED, None, why) for path in intents]
        self._held.update(intents)
        return outcomes + [self._write(entry) for entry in intents.values()]

    def adopt(self, entry: Entry) -> bool:
        """Go on with a group that a daemon before this one has left changed; say whether it is still so, or may be."""
        try:
            ours = identity(self._hierarchy, entry.path) == (entry.device, entry.inode)
            current = self._access.read(entry.path)
        except CgroupGoneError:
            ours, current = False, 0
        except CgroupError:  # for the moment; its original must not get lost
            self._held[entry.path] = entry
            self._names[entry.path] = self._file(entry.path)
            return True
        if not ours or entry.file != self._hierarchy.file or current not in entry.ours:
            if entry.owner:
                self._former[entry.owner] = entry
                self._owners.release(entry)
            return False
        self._held[entry.path] = entry if entry.owner else replace(entry, ours=(current,))
        self._last[entry.path] = self._hierarchy.shares(current, entry.original)
        self._names[entry.path] = self._file(entry.path)
        return True

    def release(self, path: str) -> Outcome | None:
        """Put one group back and let go of it; ``None`` if nothing of ours is in it. A failure keeps it held."""
        held = self._held.get(path)
        entries = [replace(held, ours=self._ours(held))] if held else []
        outcomes, left = restore_entries(self._hierarchy, self._access, entries, Nobody())
        if outcomes and outcomes[0].result is Result.FOREIGN:
            self._foreign.add(path)
        if not left:
            self.drop(path)
        return outcomes[0] if outcomes else None

    def keep(self) -> None:
        """Leave every value as it is, with its original in the journal for whoever comes next. OSError."""
        self._journal.store([entry for entry in [*self._entries(self._held), *self._formers()] if entry.ours])

    def restore(self) -> list[Outcome]:
        """Put every value that is ours back, carry on past failures, and keep those in the journal."""
        entries = [*self._entries(self._held), *self._formers()]
        outcomes, left = restore_entries(self._hierarchy, self._access, entries, self._owners)
        self._journal.store(left)
        self._recorded = set()
        self._held = {entry.path: entry for entry in left}
        self._former = {}
        return outcomes

    def _entries(self, held: Mapping[str, Entry]) -> list[Entry]:
        """Give what is ours in held groups, or only on record of one that somebody else has changed."""
        return [
            replace(entry, ours=self._ours(entry))
            for path, entry in held.items()
            if path not in self._foreign or self._owners.kept(entry.owner)
        ]

    def _formers(self) -> list[Entry]:
        """Give the groups that are gone while the record is not put back, and forget the others."""
        self._former = {owner: entry for owner, entry in self._former.items() if self._owners.kept(owner)}
        return list(self._former.values())

    def _compare(self, path: str, shares: int, intents: dict[str, Entry], outcomes: list[Outcome]) -> None:
        """Note the intent to write, or the outcome where nothing is to be written."""
        entry = self._held[path]
        self._check_identity(entry)
        current = self._access.read(path)
        expected = self._ours(entry) if entry.ours else (entry.original, *self._ours(entry))
        if not self._changed(entry) and path not in self._foreign:
            # Not touched by us yet: as found now.
            entry = self._held[path] = replace(entry, original=self._sound(path, current))
        elif current not in expected or path in self._foreign:
            outcomes.append(self._leave_alone(entry, current, f"somebody else has set {current}: left alone"))
            return
        target = self._hierarchy.raw(shares, entry.original)
        if current == target:
            outcomes.append(Outcome(path, Result.SKIPPED, self._hierarchy.shares(current, entry.original), "unchanged"))
            return
        intents[path] = replace(entry, ours=(current, target))

    def _write(self, entry: Entry) -> Outcome:
        """Write the last of ``ours`` and read it back."""
        compared, target = entry.ours
        try:
            # Once more: the journal may have taken seconds.
            self._check_identity(entry)
            current = self._access.read(entry.path)
            if current not in (compared, *self._owners.kept(entry.owner)):
                return self._give_way(entry, current)
            self._access.write(entry.path, target)
            current = self._access.read(entry.path)
        except CgroupError as error:
            return self._failed(entry.path, error)
        # An owner that has not been told yet may have written its record's value, the one from before, in between.
        kept = (*self._owners.kept(entry.owner), compared) if entry.owner else ()
        if current != target and current not in kept:
            return self._leave_alone(entry, current, f"wrote {target}, reads {current}: left alone")
        shares = self._last[entry.path] = self._hierarchy.shares(current, entry.original)
        self._held[entry.path] = replace(entry, ours=() if current == entry.original else (current,))
        if entry.owner:
            self._owners.tell(entry)
        return Outcome(entry.path, Result.OK, shares, f"{self._hierarchy.file} = {current}")

    def _give_way(self, entry: Entry, current: int) -> Outcome:
        """Write nothing where somebody else was faster. If nothing of ours was in force, theirs is the new original."""
        untouched = replace(entry, ours=())
        if entry.ours[0] != entry.original or self._changed(untouched):
            return self._leave_alone(entry, current, f"somebody else has set {current} meanwhile: left alone")
        self._held[entry.path] = untouched
        self._last.pop(entry.path, None)
        return Outcome(entry.path, Result.FOREIGN, None, f"somebody else has set {current} meanwhile: looked at anew")

    def _leave_alone(self, entry: Entry, current: int, why: str) -> Outcome:
        """Take a group for somebody else's from now on."""
        self._foreign.add(entry.path)
        self._held[entry.path] = replace(entry, ours=())
        if entry.owner:
            self._owners.leave(entry.owner)
        shares = self._last[entry.path] = self._hierarchy.shares(current, entry.original)
        return Outcome(entry.path, Result.FOREIGN, shares, why)

    def _check_identity(self, entry: Entry) -> None:
        """Refuse a group that only has the same path."""
        if identity(self._hierarchy, entry.path) != (entry.device, entry.inode):
            raise CgroupGoneError(f"{self._hierarchy.folder(entry.path)}: another group has that path now")

    def _failed(self, path: str, error: CgroupError) -> Outcome:
        result = Result.GONE if isinstance(error, CgroupGoneError) else Result.FAILED
        return Outcome(path, result, None, str(error))

    def _store(self, held: Mapping[str, Entry]) -> None:
        """Journal every held group; wait for the disk only if it does not have all the originals yet."""
        entries = [*self._entries(held), *self._formers()]
        originals = {(entry.path, entry.device, entry.inode, entry.original, entry.owner) for entry in entries}
        new = not originals <= self._recorded
        self._journal.store(entries, durable=new)
        self._recorded = originals  # of these alone the disk has the originals, whatever it had before
