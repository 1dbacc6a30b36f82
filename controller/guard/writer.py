"""The one writer: compare, journal, write, read back, and put back, for every lever alike.

Every change is compare-and-set: journalled first, made only if the value is still the one that was left there (or
found), and read back. A value that somebody else has changed since is left alone from then on. Who writes the original
back, as configuration management does, has released the place and not taken it: it may be set again after a pause.

A place may have an owner with a record of its own (owners.py). Then what is ours may come back by the owner's
doing: late, or in a new group of the same container. Such values count as ours as long as they are on record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Generic, cast

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.owners import Nobody, Owners
from qioi.controller.guard.restore import Outcome, Result, failed, restore_entries
from qioi.controller.guard.rule import Whose, whose
from qioi.controller.levers.lever import Identity, Lever, Place
from qioi.kernel.errors import KernelError
from qioi.model import Owner

#: Seconds for which a place is left alone whose original somebody else has put back. It doubles, up to the longest,
#: each time that this happens within :data:`CALM` pauses of the time before.
PAUSE, LONGEST, CALM = 60.0, 3600.0, 10


class Writer(Generic[Place]):
    """Holds places: what was found there, and what of ours is in force there now."""

    def __init__(
        self,
        lever: Lever[Place],
        journal: Journal,
        owners: Owners | None = None,
        *,
        durable: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with nothing held. Not ``durable``: nothing outlives a crash of the host, so no disk is waited for."""
        self._lever = lever
        self._journal = journal
        self._owners: Owners = owners or Nobody()
        self._durable = durable
        self._held: dict[Place, Entry] = {}
        self._former: dict[Owner, Entry] = {}  # groups that are gone, while the record is not put back
        self._last: dict[Place, int] = {}  # shares as they were last seen, in v1 units
        self._foreign: dict[Place, float] = {}  # left alone, and until when
        self._pauses: dict[Place, tuple[float, float]] = {}  # the last one, and when it began
        self._clock = clock
        self._recorded: set[tuple[str, Identity, int, Owner | None]] = set()

    # ---- what is held

    def meet(self, place: Place, path: str, owner: Owner | None = None) -> Entry:
        """Take a place into care with what is found there; one that is held stays as it is. KernelError."""
        identity, held = self._lever.identity(place), self._held.get(place)
        if held is not None and held.identity == identity:
            return held
        self.drop(place)
        found = self._lever.original(place, self._lever.read(place))
        entry = Entry(path, self._lever.file, identity, found, (), owner)
        former = self._former.pop(owner, None) if owner is not None else None
        if former is not None and former.file == entry.file and found in former.ours:
            # A container that starts again has what is on its record.
            entry = replace(entry, original=former.original, ours=(found, former.original))
        self._held[place] = entry
        return entry

    def take(self, entry: Entry) -> None:
        """Take a place into care with what is known of it."""
        self._held[cast(Place, entry.place)] = entry

    def drop(self, place: Place) -> None:
        """Let go of what is gone. What its owner has on record of ours is put back by the owner."""
        entry = self._held.pop(place, None)
        self._last.pop(place, None)
        if entry is not None and entry.owner is not None and self._changed(entry):
            entry = self._former[entry.owner] = replace(entry, ours=self._ours(entry))
            self._owners.release(entry)
        self._foreign.pop(place, None)
        self._pauses.pop(place, None)

    def held(self) -> Mapping[Place, Entry]:
        """Give all that is held."""
        return self._held

    def holds(self, place: Place) -> bool:
        """Whether a place is in care."""
        return place in self._held

    def is_foreign(self, place: Place) -> bool:
        """Whether somebody else has changed the value since, so that it is left alone, for good or for now."""
        until = self._foreign.get(place)
        if until is None or self._clock() < until:
            return until is not None
        del self._foreign[place]
        return False

    def pause(self, place: Place) -> float | None:
        """Give for how many seconds a place is left alone whose original was put back; ``None`` for all others."""
        return self._pauses[place][0] if math.isfinite(self._foreign.get(place, math.inf)) else None

    def changed(self) -> tuple[Place, ...]:
        """Name the places where something of ours is, or may be."""
        return tuple(one for one, entry in self._held.items() if one not in self._foreign and self._changed(entry))

    def _ours(self, entry: Entry) -> tuple[int, ...]:
        """Give all values of ours that may be in force somewhere, now or by its owner's doing."""
        if entry.owner is None:
            return entry.ours
        return tuple(dict.fromkeys((*entry.ours, *self._owners.kept(entry.owner))))

    def _changed(self, entry: Entry) -> bool:
        """Whether anything but the original may be in force by our doing."""
        return any(value != entry.original for value in self._ours(entry))

    # ---- writing

    def apply(self, wanted: Mapping[Place, int]) -> list[Outcome]:
        """Set held places: compare, journal all, then write one by one. Shares are in v1 units."""
        outcomes: list[Outcome] = []
        intents: dict[Place, Entry] = {}
        for place, value in wanted.items():
            try:
                self._compare(place, value, intents, outcomes)
            except KernelError as error:
                outcomes.append(failed(self._held[place].path, error))
        if not intents:
            return outcomes
        try:
            self._store({**self._held, **intents})
        except OSError as error:
            why = f"journal {self._journal.file}: {error.strerror}: {self._lever.undone} without it"
            # What is on the disk names the original: the way back to it needs no more.
            back = {place: entry for place, entry in intents.items() if entry.ours[-1] == entry.original}
            left = [entry for place, entry in intents.items() if place not in back]
            outcomes += [Outcome(entry.path, Result.FAILED, None, why) for entry in left]
            intents = back
        self._held.update(intents)
        return outcomes + [self._write(place, entry) for place, entry in intents.items()]

    def _compare(self, place: Place, wanted: int, intents: dict[Place, Entry], outcomes: list[Outcome]) -> None:
        """Note the intent to write, or the outcome where nothing is to be written."""
        entry, lever = self._held[place], self._lever
        if lever.costly:
            if not self.is_foreign(place):
                intents[place] = replace(entry, ours=(*(entry.ours[-2:] or (entry.original,)), wanted))
            return
        lever.check(place, entry.identity)
        current = lever.read(place)
        ours = self._ours(entry)
        if self.is_foreign(place):
            shown = self._see(place, entry, current)
            outcomes.append(Outcome(entry.path, Result.FOREIGN, shown, f"somebody else has set {current}: left alone"))
            return
        if not self._changed(entry):
            # Not touched by us yet: as found now.
            entry = self._held[place] = replace(entry, original=lever.original(place, current))
        elif not self._expected(entry, current, ours):
            outcomes.append(self._leave_alone(place, entry, current, f"somebody else has set {current}: left alone"))
            return
        target = lever.raw(wanted, entry.original)
        if current == target:
            outcomes.append(Outcome(entry.path, Result.SKIPPED, lever.shown(current, entry.original), "unchanged"))
            return
        intents[place] = replace(entry, ours=(current, target))

    def _expected(self, entry: Entry, current: int, ours: tuple[int, ...]) -> bool:
        """Whether a value is there by our doing, or was there before it."""
        match whose(current, entry.original, ours):
            case Whose.ORIGINAL:
                return not entry.ours or current in ours
            case verdict:
                return verdict is Whose.OURS

    def _write(self, place: Place, entry: Entry) -> Outcome:
        """Write the last of ``ours`` and read it back."""
        lever, (*compared, target) = self._lever, entry.ours
        try:
            # Once more: the journal may have taken seconds.
            lever.check(place, entry.identity)
            current = lever.read(place)
            if current not in (*compared, *self._owners.kept(entry.owner)):
                return self._give_way(place, entry, current)
            lever.write(place, target)
            current = lever.read(place)
        except KernelError as error:
            return failed(entry.path, error)
        # An owner that has not been told yet may have written its record's value, the one from before, in between.
        kept = (*self._owners.kept(entry.owner), *compared) if entry.owner else ()
        if current != target and current not in kept:
            return self._leave_alone(place, entry, current, f"wrote {target}, reads {current}: left alone")
        self._held[place] = replace(entry, ours=() if current == entry.original else (current,))
        if entry.owner:
            self._owners.tell(entry)
        return Outcome(entry.path, Result.OK, self._see(place, entry, current), lever.says(current))

    def _give_way(self, place: Place, entry: Entry, current: int) -> Outcome:
        """Write nothing where somebody else was faster. If nothing of ours was in force, theirs is the new original."""
        untouched = replace(entry, ours=())
        if entry.ours[0] != entry.original or self._changed(untouched):
            return self._leave_alone(place, entry, current, f"somebody else has set {current} meanwhile: left alone")
        self._held[place] = untouched
        self._last.pop(place, None)
        return Outcome(entry.path, Result.FOREIGN, None, f"somebody else has set {current} meanwhile: looked at anew")

    def _leave_alone(self, place: Place, entry: Entry, current: int, why: str) -> Outcome:
        """Take a place for somebody else's from now on, or for one that was released."""
        self._foreign[place] = math.inf
        if current == entry.original and self._lever.released:
            why = f"somebody else has put its original back: left alone for {self._rest(place):g} s"
        self._held[place] = replace(entry, ours=())
        if entry.owner:
            self._owners.leave(entry.owner)
        return Outcome(entry.path, Result.FOREIGN, self._see(place, entry, current), why)

    def _rest(self, place: Place) -> float:
        """Leave a place alone for a while, and give for how many seconds."""
        now, (pause, since) = self._clock(), self._pauses.get(place, (0.0, -math.inf))
        pause = min(LONGEST, 2 * pause) if now - since < CALM * pause else PAUSE
        self._pauses[place] = pause, now
        self._foreign[place] = now + pause
        return pause

    def _see(self, place: Place, entry: Entry, current: int) -> int | None:
        """Note what is in force, in v1 units, where it is a share."""
        shown = self._lever.shown(current, entry.original)
        if shown is not None:
            self._last[place] = shown
        return shown

    # ---- putting back

    def release(self, place: Place) -> Outcome | None:
        """Put one place back and let go of it; ``None`` if nothing of ours is in it. A failure keeps it held."""
        held = self._held.get(place)
        entries = [replace(held, ours=self._ours(held))] if held else []
        outcomes, left = restore_entries(self._lever, entries)
        if outcomes and outcomes[0].result is Result.FOREIGN:
            self._foreign[place] = math.inf
        if not left:
            self.drop(place)
        return outcomes[0] if outcomes else None

    def restore(self, more: Iterable[Entry] = ()) -> list[Outcome]:
        """Put every value that is ours back, carry on past failures, and keep those in the journal. OSError.

        ``more`` is what has something of ours from what is held.
        """
        entries = [*self._entries(self._held), *self._formers(), *more]
        outcomes, left = restore_entries(self._lever, entries, self._owners)
        self._held, self._former, self._recorded = {}, {}, set()
        self._foreign.clear()
        for entry in left:
            self.take(entry)
        self._journal.store(left, durable=self._durable)
        return outcomes

    # ---- the journal

    def record(self) -> None:
        """Make the originals of all that is held durable, so that no later write waits for a disk. OSError."""
        self._store(self._held)

    def keep(self) -> None:
        """Leave every value as it is, with its original in the journal for whoever comes next. OSError."""
        self._journal.store([entry for entry in [*self._entries(self._held), *self._formers()] if entry.ours])

    def _entries(self, held: Mapping[Place, Entry]) -> list[Entry]:
        """Give what is ours in held places, or only on record of one that somebody else has changed."""
        return [
            entry if entry.owner is None else replace(entry, ours=self._ours(entry))
            for place, entry in held.items()
            if place not in self._foreign or self._owners.kept(entry.owner)
        ]

    def _formers(self) -> list[Entry]:
        """Give the groups that are gone while the record is not put back, and forget the others."""
        self._former = {owner: entry for owner, entry in self._former.items() if self._owners.kept(owner)}
        return list(self._former.values())

    def _store(self, held: Mapping[Place, Entry]) -> None:
        """Journal all that is held; wait for the disk only if it does not have all the originals yet."""
        entries = [*self._entries(held), *self._formers()]
        originals = {(entry.path, entry.identity, entry.original, entry.owner) for entry in entries}
        new = self._durable and not originals <= self._recorded
        self._journal.store(entries, durable=new)
        self._recorded = originals  # of these alone the disk has the originals, whatever it had before
