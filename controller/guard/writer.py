"""The one writer of all levers: compare, journal, write, read back, and restore.

Every change is compare-and-set: it is journalled first, made only if the value is still the original or ours, and read
back. A foreign value is left alone from then on. Whoever writes the original back, as configuration management does,
releases the place and does not take it: the writer may set it again after a pause.

A place may have an owner (owners.py). The owner may write our value again, late or into a new group of the same
container. Such values count as ours as long as the owner's record holds them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Generic, cast

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.owners import Owners
from qioi.controller.guard.restore import Outcome, Result, failed, restore_entries
from qioi.controller.levers.lever import Identity, Lever, Place
from qioi.kernel.errors import KernelError
from qioi.model import Owner

log = logging.getLogger("qioi")

#: Seconds for which a place is left alone after somebody else restored its original. The pause doubles, up to
#: :data:`LONGEST`, each time that this happens within :data:`CALM` pauses of the last time.
PAUSE, LONGEST, CALM = 60.0, 3600.0, 10


class Writer(Generic[Place]):
    """Holds places: the original of each, and which of our values are in force there."""

    def __init__(
        self,
        lever: Lever[Place],
        journal: Journal,
        owners: Owners | None = None,
        *,
        durable: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with nothing held. ``durable=False`` does not wait for the disk: the values end with the host."""
        self._lever = lever
        self._journal = journal
        self._owners: Owners = owners or Owners()
        self._durable = durable
        self._held: dict[Place, Entry] = {}
        self._former: dict[Owner, Entry] = {}  # groups that are gone while their owners' records are not restored
        self._last: dict[Place, int] = {}  # shares as last seen, in v1 units
        self._foreign: dict[Place, float] = {}  # places left alone, and until when
        self._pauses: dict[Place, tuple[float, float]] = {}  # the last pause of each place, and when it began
        self._clock = clock
        self._recorded: set[tuple[str, Identity, int, Owner | None]] = set()
        self._removed = False  # whether the journal was found removed
        self._outdated = False  # whether the journal names values as ours that are ours no longer

    # ---- what is held

    def meet(self, place: Place, path: str, owner: Owner | None = None) -> Entry:
        """Hold a place with the value that is found there; a place already held stays as it is. KernelError."""
        identity, held = self._lever.identity(place), self._held.get(place)
        if held is not None and held.identity == identity:
            return held
        self.drop(place)
        found = self._lever.original(place, self._lever.read(place))
        entry = Entry(path, self._lever.file, identity, found, (), owner)
        former = self._former.pop(owner, None) if owner is not None else None
        if former is not None and former.file == entry.file and found in former.ours:
            # A container that starts again gets the share that its owner's record holds.
            entry = replace(entry, original=former.original, ours=(found, former.original))
        self._held[place] = entry
        return entry

    def take(self, entry: Entry) -> None:
        """Hold a place with a known entry."""
        self._held[cast(Place, entry.place)] = entry

    def drop(self, place: Place) -> None:
        """Stop holding a place that is gone. If its owner's record is ours, ask the owner to restore it."""
        entry = self._held.pop(place, None)
        self._last.pop(place, None)
        if entry is not None and entry.owner is not None and self._changed(entry):
            entry = self._former[entry.owner] = replace(entry, ours=self._ours(entry))
            self._owners.release(entry)
        self._foreign.pop(place, None)
        self._pauses.pop(place, None)

    def held(self) -> Mapping[Place, Entry]:
        """Give the entries of all places held."""
        return self._held

    def holds(self, place: Place) -> bool:
        """Whether a place is held."""
        return place in self._held

    def is_foreign(self, place: Place) -> bool:
        """Whether a place is left alone, for good or for a pause, because somebody else changed its value."""
        until = self._foreign.get(place)
        if until is None or self._clock() < until:
            return until is not None
        del self._foreign[place]
        return False

    def is_marked(self, place: Place) -> bool:
        """Whether a place is left alone, or was within :data:`CALM` pauses."""
        pause, since = self._pauses.get(place, (0.0, 0.0))
        return self.is_foreign(place) or self._clock() - since < CALM * pause

    def pause(self, place: Place) -> float | None:
        """Give the pause in seconds of a place whose original somebody else restored; ``None`` for all others."""
        return self._pauses[place][0] if math.isfinite(self._foreign.get(place, math.inf)) else None

    def changed(self) -> tuple[Place, ...]:
        """Name the places where a value of ours is, or may be, in force."""
        return tuple(one for one, entry in self._held.items() if one not in self._foreign and self._changed(entry))

    def _ours(self, entry: Entry) -> tuple[int, ...]:
        """Give all our values that may be in force now, or that the owner may still write."""
        if entry.owner is None:
            return entry.ours
        return tuple(dict.fromkeys((*entry.ours, *self._owners.kept(entry.owner))))

    def _changed(self, entry: Entry) -> bool:
        """Whether we may have put a value other than the original into force."""
        return any(value != entry.original for value in self._ours(entry))

    # ---- writing

    def apply(self, wanted: Mapping[Place, int]) -> list[Outcome]:
        """Set held places: compare all, journal all, then write one by one. Shares are in v1 units."""
        outcomes = self._apply(wanted)
        if self._is_removed() or self._outdated:
            with suppress(OSError):  # the next call tries again
                self.record()
        return outcomes

    def _is_removed(self) -> bool:
        """Whether somebody has removed the journal, without which nobody restores what a killed daemon leaves."""
        before, self._removed = self._removed, False
        with suppress(OSError):
            self._journal.file.stat()
            return False
        if not self.changed():
            return False
        self._removed = True
        self._recorded = set()
        if not before:
            log.warning("journal %s: somebody has removed it: it is written anew", self._journal.file)
        return True

    def _apply(self, wanted: Mapping[Place, int]) -> list[Outcome]:
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
            # The journal on the disk already has the original, which suffices for writes that restore it.
            back = {place: entry for place, entry in intents.items() if entry.ours[-1] == entry.original}
            left = [entry for place, entry in intents.items() if place not in back]
            outcomes += [Outcome(entry.path, Result.FAILED, None, why) for entry in left]
            intents = back
        self._held.update(intents)
        return outcomes + [self._write(place, entry) for place, entry in intents.items()]

    def _compare(self, place: Place, wanted: int, intents: dict[Place, Entry], outcomes: list[Outcome]) -> None:
        """Add the intent to write, or the outcome where no write is needed or allowed."""
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
            # We have not written here yet: the original is what is there now.
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
        """Whether a value is ours or an original that is still to be expected."""
        return current in ours or (current == entry.original and not entry.ours)

    def _write(self, place: Place, entry: Entry) -> Outcome:
        """Write the last of ``ours`` and read it back."""
        lever, (*compared, target) = self._lever, entry.ours
        try:
            # Compare again: storing the journal may have taken seconds.
            lever.check(place, entry.identity)
            current = lever.read(place)
            if current not in (*compared, *self._owners.kept(entry.owner)):
                return self._give_way(place, entry, current)
            lever.write(place, target, entry.identity)
            current = lever.read(place)
        except KernelError as error:
            return failed(entry.path, error)
        # An owner that was not told yet may have written its recorded value in between.
        kept = (*self._owners.kept(entry.owner), *compared) if entry.owner else ()
        if current != target and current not in kept:
            return self._leave_alone(place, entry, current, f"wrote {target}, reads {current}: left alone")
        self._held[place] = replace(entry, ours=() if current == entry.original else (current,))
        self._outdated |= current == entry.original
        if entry.owner:
            self._owners.tell(entry)
        return Outcome(entry.path, Result.OK, self._see(place, entry, current), lever.says(current))

    def _give_way(self, place: Place, entry: Entry, current: int) -> Outcome:
        """Write nothing where somebody else was faster. The value becomes the original if none of ours was in force."""
        untouched = replace(entry, ours=())
        if entry.ours[0] != entry.original or self._changed(untouched):
            return self._leave_alone(place, entry, current, f"somebody else has set {current} meanwhile: left alone")
        self._held[place] = untouched
        self._outdated = True
        self._last.pop(place, None)
        return Outcome(entry.path, Result.FOREIGN, None, f"somebody else has set {current} meanwhile: looked at anew")

    def _leave_alone(self, place: Place, entry: Entry, current: int, why: str) -> Outcome:
        """Mark a place as foreign for good, or for a pause if somebody else restored its original."""
        self._foreign[place] = math.inf
        self._outdated = True
        if current == entry.original and self._lever.released:
            why = f"somebody else has put its original back: left alone for {self._rest(place):g} s"
        self._held[place] = replace(entry, ours=())
        if entry.owner:
            self._owners.leave(entry.owner)
        return Outcome(entry.path, Result.FOREIGN, self._see(place, entry, current), why)

    def _rest(self, place: Place) -> float:
        """Begin a pause for a place; give its length in seconds."""
        now, (pause, since) = self._clock(), self._pauses.get(place, (0.0, -math.inf))
        pause = min(LONGEST, 2 * pause) if now - since < CALM * pause else PAUSE
        self._pauses[place] = pause, now
        self._foreign[place] = now + pause
        return pause

    def _see(self, place: Place, entry: Entry, current: int) -> int | None:
        """Note and give the share in force in v1 units; ``None`` if the value is not a share."""
        shown = self._lever.shown(current, entry.original)
        if shown is not None:
            self._last[place] = shown
        return shown

    # ---- restoring

    def release(self, place: Place) -> Outcome | None:
        """Restore one place and stop holding it. ``None``: the daemon had no value there to restore.

        A place that could not be restored stays held. So does one with somebody else's value, because the next write
        would take that value for the original.
        """
        held = self._held.get(place)
        if held is None:
            return None
        entry = replace(held, ours=self._ours(held))
        outcomes, left = restore_entries(self._lever, [entry])
        if outcomes and outcomes[0].result is Result.FOREIGN:
            self._foreign[place] = math.inf
        if not left:
            self._let_go(place, entry)
        return outcomes[0] if outcomes else None

    def _let_go(self, place: Place, entry: Entry) -> None:
        """Drop a restored place, or only what was ours where somebody else wrote to it: the mark stays."""
        self._outdated |= bool(entry.ours)
        if not self.is_marked(place):
            self.drop(place)
            return
        self._held[place] = replace(entry, ours=())
        self._last.pop(place, None)
        if entry.owner is not None and self._changed(entry):
            self._owners.release(entry)

    def restore(self) -> list[Outcome]:
        """Restore every value that is ours, carry on past failures, and keep those in the journal.

        A journal that cannot be written is one of the failures.
        """
        entries = [*self._entries(self._held), *self._formers()]
        outcomes, left = restore_entries(self._lever, entries, self._owners)
        self._held, self._former, self._recorded = {}, {}, set()
        self._foreign.clear()
        for entry in left:
            self.take(entry)
        try:
            self._journal.store(left, durable=self._durable)
        except OSError as error:
            outcomes.append(self.unwritten(error))
        return outcomes

    def unwritten(self, error: OSError) -> Outcome:
        """Make the outcome that says that the journal still names what was restored."""
        why = f"the journal cannot be written ({error.strerror}): it names what was restored, too"
        return Outcome(str(self._journal.file), Result.FAILED, None, why)

    # ---- the journal

    def record(self) -> None:
        """Store the originals of all held places durably, so that no later write waits for the disk. OSError."""
        self._store(self._held)

    def keep(self) -> None:
        """Leave every value as it is, with its original in the journal for the next daemon. OSError."""
        entries = [entry for entry in [*self._entries(self._held), *self._formers()] if entry.ours]
        self._journal.store(entries, durable=self._durable)

    def _entries(self, held: Mapping[Place, Entry]) -> list[Entry]:
        """Give the entries of held places, foreign ones only if their owner still records a value of ours."""
        return [
            entry if entry.owner is None else replace(entry, ours=self._ours(entry))
            for place, entry in held.items()
            if place not in self._foreign or self._owners.kept(entry.owner)
        ]

    def _formers(self) -> list[Entry]:
        """Give the removed groups whose owners' records are not restored yet, and forget all others."""
        self._former = {owner: entry for owner, entry in self._former.items() if self._owners.kept(owner)}
        return list(self._former.values())

    def _store(self, held: Mapping[Place, Entry]) -> None:
        """Journal all held places; wait for the disk only if it does not have all their originals yet."""
        entries = [*self._entries(held), *self._formers()]
        originals = {(entry.path, entry.identity, entry.original, entry.owner) for entry in entries}
        new = self._durable and not originals <= self._recorded
        self._journal.store(entries, durable=new)
        self._outdated = False
        self._recorded = originals  # the file was replaced: the disk holds these originals and no others
