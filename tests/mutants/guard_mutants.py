"""Mistakes of what writes and restores: guard and journal."""

from __future__ import annotations

from mutants import Sources

of = Sources("controller", ("tests/controller/guard", "tests/controller/levers")).mutants

WRITER = of(
    "guard/writer.py",
    ("forgets what somebody else has set", "if not self.is_marked(place):", "if True:"),
    (
        "forgets a pause",
        "return self.is_foreign(place) or self._clock() - since < CALM * pause",
        "return self.is_foreign(place)",
    ),
    (
        "journals for ever what is somebody else's",
        "        self._outdated = True\n        if current",
        "        if current",
    ),
    ("journals for ever what is back", "        self._outdated |= current == entry.original\n", ""),
    ("journals for ever what it has let go of", "        self._outdated |= bool(entry.ours)\n", ""),
    ("writes without a journal", "            self._store({**self._held, **intents})\n", "            pass\n"),
    ("writes anything though the journal is full", "if entry.ours[-1] == entry.original}", "}"),
    (
        "does not even write originals while the journal is full",
        "back = {place: entry for place, entry in intents.items() if entry.ours[-1] == entry.original}",
        "back = {}",
    ),
    (
        "compares what has another group's path",
        "        lever.check(place, entry.identity)\n        current = lever.read(place)\n        ours",
        "        current = lever.read(place)\n        ours",
    ),
    (
        "writes into what has another group's path",
        "            lever.check(place, entry.identity)\n            current",
        "            current",
    ),
    (
        "does not compare again after the journal",
        "if current not in (*compared, *self._owners.kept(entry.owner)):",
        "if False:",
    ),
    ("believes a write without reading it", "if current != target and current not in kept:", "if False:"),
    (
        "takes an owner's late value for a stranger's",
        "kept = (*self._owners.kept(entry.owner), *compared) if entry.owner else ()",
        "kept = ()",
    ),
    (
        "takes an original that it wrote itself for a change",
        "ours=() if current == entry.original else (current,)",
        "ours=(current,)",
    ),
    (
        "does not notice an original that somebody has put back",
        "(current == entry.original and not entry.ours)",
        "current == entry.original",
    ),
    (
        "leaves alone for good what has its original back",
        "if current == entry.original and self._lever.released:",
        "if False:",
    ),
    ("pauses no longer for who goes on", "min(LONGEST, 2 * pause) if now - since < CALM * pause else PAUSE", "PAUSE"),
    ("pauses for ever longer", "min(LONGEST, 2 * pause)", "2 * pause"),
    ("never forgets a pause", "if now - since < CALM * pause else PAUSE", "if pause else PAUSE"),
    ("never ends a pause", "if until is None or self._clock() < until:", "if True:"),
    ("ends a pause at once", "if until is None or self._clock() < until:", "if until is None or until == math.inf:"),
    (
        "forgets that an owner still records ours",
        "if place not in self._foreign or self._owners.kept(entry.owner)",
        "if place not in self._foreign",
    ),
    ("never waits for the disk", "new = self._durable and not originals <= self._recorded", "new = False"),
    ("waits for the disk each time", "new = self._durable and not originals <= self._recorded", "new = self._durable"),
    ("takes for durable what the file has no more", "self._recorded = originals ", "self._recorded |= originals "),
    (
        "forgets what could not be restored",
        "self._journal.store(left, durable=self._durable)",
        "self._journal.store([], durable=self._durable)",
    ),
    (
        "takes up again what a release found to be somebody else's",
        "if outcomes and outcomes[0].result is Result.FOREIGN:",
        "if False:",
    ),
    ("drops what could not be released", "        if not left:\n", "        if True:\n"),
    (
        "leaves the record of a group that is gone",
        "if entry is not None and entry.owner is not None and self._changed(entry):",
        "if False:",
    ),
    (
        "holds on to a group that was made anew",
        "if held is not None and held.identity == identity:",
        "if held is not None:",
    ),
    (
        "takes anything for what a record has brought back",
        "former.file == entry.file and found in former.ours",
        "former.file == entry.file",
    ),
    (
        "takes what a record has brought back for the original",
        "if former is not None and former.file",
        "if False and former.file",
    ),
    (
        "forgets what an owner may still write",
        "return tuple(dict.fromkeys((*entry.ours, *self._owners.kept(entry.owner))))",
        "return entry.ours",
    ),
    (
        "journals the new value alone",
        "intents[place] = replace(entry, ours=(current, target))",
        "intents[place] = replace(entry, ours=(target,))",
    ),
    ("journals the new slice alone", "(*(entry.ours[-2:] or (entry.original,)), wanted)", "(wanted,)"),
    ("looks anew at what was ours", "if entry.ours[0] != entry.original or self._changed(untouched):", "if False:"),
    (
        "restores what it has left alone",
        "        self._held[place] = replace(entry, ours=())\n        if entry.owner:\n            self._owners.leave",
        "        if entry.owner:\n            self._owners.leave",
    ),
    (
        "goes on telling the owner of what is left alone",
        "            self._owners.leave(entry.owner)\n",
        "            pass\n",
    ),
    (
        "never tells the owner",
        "            self._owners.tell(entry)\n        return Outcome",
        "            pass\n        return Outcome",
    ),
    ("writes what is there already", "        if current == target:\n", "        if False:\n"),
    (
        "keeps a stale original of what it never wrote",
        "        if not self._changed(entry):\n            # We",
        "        if False:\n            # We",
    ),
    ("keeps what is not ours for the next daemon", "*self._formers()] if entry.ours]", "*self._formers()]]"),
    (
        "forgets those that are gone when it restores",
        "entries = [*self._entries(self._held), *self._formers()]",
        "entries = [*self._entries(self._held)]",
    ),
)

RESTORE = of(
    "guard/restore.py",
    ("restores into what has another group's path", "same = identity == entry.identity", "same = True"),
    ("restores another lever's value", " or entry.file != lever.file:", ":"),
    ("restores nothing that an owner has made anew", "if not (same or entry.owner) or", "if not same or"),
    (
        "restores over what somebody else has set",
        "match whose(current, original, lever.left_by_us(entry.ours)):",
        "match whose(current, original, (current,)):",
    ),
    ("does not know what the kernel sets by itself", "lever.left_by_us(entry.ours)", "entry.ours"),
    (
        "believes a restore without reading it",
        "if now != original and (settled or now not in entry.ours):",
        "if False:",
    ),
    ("takes an owner's late write for a failure", "settled=entry.owner is None)", "settled=True)"),
    (
        "gives up what could not be read",
        "            left.append(entry)\n            continue\n",
        "            continue\n",
    ),
    ("keeps what is gone for ever", "except GoneError as error:", "except ZeroDivisionError as error:"),
    (
        "gives up what failed in the end",
        "if owner in problems or outcomes[place].result is Result.FAILED:",
        "if owner in problems:",
    ),
    (
        "forgets a record that is not restored",
        "if owner in problems or outcomes[place].result is Result.FAILED:",
        "if outcomes[place].result is Result.FAILED:",
    ),
    (
        "does not look again after the owner's answer",
        "    try:\n        restore_entry(lever, entry)\n    except GoneError:",
        "    try:\n        pass\n    except GoneError:",
    ),
    ("restores what it never changed", "        if not entry.ours:  # never changed by us\n            continue\n", ""),
)

RULE = of(
    "guard/rule.py",
    ("takes everything for ours", "return Whose.OURS if value in ours else Whose.FOREIGN", "return Whose.OURS"),
    ("takes nothing for ours", "return Whose.OURS if value in ours else Whose.FOREIGN", "return Whose.FOREIGN"),
    ("does not know the original", "if value == original:", "if value == original and value not in ours:"),
)

JOURNAL = of(
    "guard/journal.py",
    (
        "journal: the file is not synced",
        "            os.fsync(descriptor)\n    finally",
        "            pass\n    finally",
    ),
    ("journal: the folder is not synced", "            sync_folder(self._folder)\n\n", "            pass\n\n"),
    (
        "journal: the file is written in place",
        "temporary.replace(path)",
        "path.write_bytes(temporary.read_bytes())",
    ),
    (
        "journal: a half-written new file stays",
        "            with suppress(OSError):\n                temporary.unlink()\n            raise",
        "            raise",
    ),
    (
        "journal: a short write is taken for a whole one",
        "rest = rest[os.write(descriptor, rest) :]",
        "rest = rest[os.write(descriptor, rest) and len(rest) :]",
    ),
    ("journal: damage is not noticed", ' or checksum != b"%08x" % zlib.crc32(text[:-1]):', ":"),
    ("journal: missing lines are not noticed", "if len(entries) < stored:", "if False:"),
    ("journal: an empty file is well", "        if not lines:\n", "        if False:\n"),
    (
        "journal: another boot's groups are this one's",
        'other_boot = document["boot"] != self._boot',
        "other_boot = False",
    ),
    (
        "journal: another boot's groups are restored",
        "for entry in entries if entry.outlives_boot)",
        "for entry in entries)",
    ),
    (
        "journal: a pod ends with the boot",
        "return self.owner is not None or isinstance(self.identity, PodId)",
        "return self.owner is not None",
    ),
    (
        "journal: a record ends with the boot",
        "return self.owner is not None or isinstance(self.identity, PodId)",
        "return isinstance(self.identity, PodId)",
    ),
    ("journal: any version is read", 'if document["journal"] not in (1, VERSION):', "if False:"),
    (
        "journal: true is a number",
        "if not isinstance(value, int) or isinstance(value, bool):",
        "if not isinstance(value, int):",
    ),
    ("journal: the owner is lost", "if entry.owner is not None else {}", "if False else {}"),
    (
        "journal: an empty one is kept",
        "            self.file.unlink()\n        if",
        "            pass\n        if",
    ),
    (
        "journal: a damaged one is overwritten by the next",
        "                aside.hardlink_to(self.file)\n",
        "                pass\n",
    ),
    (
        "journal: a damaged one is copied anew at each start",
        "self._is_copy(path)",
        "path.samefile(self.file)",
    ),
    (
        "journal: a damaged one is no longer read",
        "            aside.hardlink_to(self.file)\n",
        "            self.file.replace(aside)\n",
    ),
)

GROUPS = of(
    "guard/guard.py",
    (
        "holds a group whose file is gone",
        "if held is None or not self._shares.keeps(path):  # reading",
        "if held is None:  #",
    ),
    ("tells a new owner of a stranger's value", "if self._lever.read(held.path) != held.ours[-1]:", "if False:"),
    (
        "tells an owner what the journal does not hold",
        "            except OSError:\n                return  # a later look",
        "            except OSError:\n                pass  # a later look",
    ),
    (
        "leaves a group with a value of ours",
        "if self.is_marked(path) or self._changed(entry):\n            try",
        "if False:\n            try",
    ),
    (
        "adopts what somebody else has set",
        "if not ours or entry.file != self._shares.file or current not in entry.ours:",
        "if not ours or entry.file != self._shares.file:",
    ),
    (
        "adopts another lever's value",
        "if not ours or entry.file != self._shares.file or current not in entry.ours:",
        "if not ours or current not in entry.ours:",
    ),
    ("adopts a group that was made anew", "ours = self._shares.identity(entry.path) == entry.identity", "ours = True"),
    (
        "gives up what can't be read at the take-over",
        "            self.take(entry)\n            return True\n        if",
        "            return False\n        if",
    ),
    (
        "counts what somebody else has raised",
        "if shares > found(held[path].original) and path not in self._foreign",
        "if shares > found(held[path].original)",
    ),
    (
        "keeps the original that others have changed",
        "elif current != entry.original and not self._changed(entry):",
        "elif False:",
    ),
    (
        "takes ours for a new original",
        "elif current != entry.original and not self._changed(entry):",
        "elif current != entry.original:",
    ),
    (
        "does not notice an original put back while it is left alone",
        "if current == entry.original and self._foreign[path] == math.inf:",
        "if False:",
    ),
)

HANDOVER = of(
    "guard/handover.py",
    ("hands its own group over", "guard.release(own) if own is not None else None", "None"),
    (
        "restores what it takes over",
        "groups is not None and entry.path not in groups:",
        "groups is not None:",
    ),
    (
        "keeps what nobody watches",
        "if guard.adopt(entry) and groups is not None and entry.path not in groups:",
        "if not guard.adopt(entry):",
    ),
    ("leaves the mark", "        mark(state_dir).unlink()\n", "        pass\n"),
    ("takes over by a damaged journal", "    if loaded.problems:\n        return None\n", ""),
    ("marks what is not there", "    if Journal(state_dir).file.exists():\n", "    if True:\n"),
)

IDLE = of(
    "guard/idle_groups.py",
    ("idle: ends another's idling", "if writer.holds(path) or not is_idle(hierarchy, path):", "if True:"),
    (
        "idle: leaves the kernel's weight where others have ended it",
        "ended = restore_entry(self._idle, before[outcome.path])",
        "ended = outcome",
    ),
    ("idle: releases all for one", "for path in self.groups if path in groups]", "for path in self.groups]"),
    (
        "idle: holds what is gone",
        "        except CgroupGoneError:\n            return True\n",
        "        except CgroupGoneError:\n            return False\n",
    ),
    ("idle: journals no release", "            self._writer.record()\n", "            pass\n"),
)

GUARD = [*WRITER, *RESTORE, *RULE, *JOURNAL, *GROUPS, *HANDOVER, *IDLE]
