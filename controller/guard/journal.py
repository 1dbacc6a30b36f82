"""The journal: what every changed value was before, durable before the change is made.

One small file, replaced as a whole (write, fsync, rename, fsync of the folder), so that a crash
leaves the old one or the new one. Each line carries its own checksum: of a file that was damaged by
other means, what can be read is used and the rest is named, never guessed. The first line names the
boot: after a restart of the host its control groups are new ones, and nothing is left to restore but what
their owners have on record, where there is one.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from qioi.controller.levers.idle import IDLE
from qioi.controller.levers.lever import GroupId, Identity, PodId, ThreadId
from qioi.model import Owner

VERSION = 2
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of ours: of the lever ``file``, at ``path``. ``original`` and ``ours`` are in the lever's own unit.

    ``path`` is a group's, also of a thread in it, or a pod's. ``ours`` are all values that may be in force without
    anybody else's doing: the last one and, while a write is on its way, the next, and what the ``owner`` has on record.
    """

    path: str
    file: str
    identity: Identity
    original: int
    ours: tuple[int, ...]
    owner: Owner | None = None

    @property
    def place(self) -> str | int:
        """Where the lever is: a thread's number, or the path."""
        return self.identity.tid if isinstance(self.identity, ThreadId) else self.path

    @property
    def outlives_boot(self) -> bool:
        """Whether there is something to put back after a restart of the host: groups and threads end with it."""
        return self.owner is not None or isinstance(self.identity, PodId)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a journal file holds. ``problems`` names each line that could not be read, in one clause."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    other_boot: bool = False


class Journal:
    """The journal file in ``folder``; what is of another kind than shares has one of another ``name``."""

    def __init__(self, folder: Path, boot_id: Path = BOOT_ID, name: str = "journal") -> None:
        self._folder = folder
        self._boot = boot_id.read_text().strip()
        self.file = folder / name

    def store(self, entries: Iterable[Entry], *, durable: bool = True) -> None:
        """Keep exactly these entries; without any, there is no file. OSError: nothing has changed.

        Not ``durable`` is enough where the originals are on the disk already: what is ours among the values
        matters after a crash of the daemon, which the page cache survives. A crash of the host ends every
        control group. And a disk may take seconds to answer on a host that is short of CPU.
        """
        lines = [encode(entry) for entry in entries]
        if lines:
            temporary = self.file.with_name(f"{self.file.name}.new")
            content = "".join([seal({"journal": VERSION, "boot": self._boot, "entries": len(lines)}), *lines])
            try:
                write_file(temporary, content.encode(), durable=durable)
                temporary.replace(self.file)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        else:
            self.file.unlink(missing_ok=True)
        if durable:
            sync_folder(self._folder)

    def load(self) -> Loaded:
        """Read what is there. OSError, except that the file is missing, is the caller's."""
        try:
            lines = self.file.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return Loaded()
        entries: list[Entry] = []
        problems: list[str] = []
        other_boot, stored = False, 0
        for number, line in enumerate(lines, 1):
            try:
                document = unseal(line)
                if number == 1 and "journal" in document:
                    if document["journal"] not in (1, VERSION):
                        return Loaded((), (f"line 1: version {document['journal']!r}, accepted is {VERSION}",))
                    other_boot = document["boot"] != self._boot
                    stored = whole(document.get("entries", 0))
                else:
                    entries.append(decode(document))
            except (ValueError, KeyError, TypeError) as error:
                problems.append(f"line {number}: {error}")
        if not lines:
            problems.append("the file is empty")
        if len(entries) < stored:
            problems.append(f"{stored - len(entries)} of {stored} entries are missing")
        if other_boot:
            return Loaded(tuple(entry for entry in entries if entry.outlives_boot), tuple(problems), other_boot=True)
        return Loaded(tuple(entries), tuple(problems))

    def set_aside(self) -> Path:
        """Keep a damaged journal for people to look at, out of the way of the next one."""
        aside = self.file.with_name(f"{self.file.name}.damaged")
        self.file.replace(aside)
        sync_folder(self._folder)
        return aside


def seal(document: dict[str, object]) -> str:
    """Give one line: the CRC-32 of the JSON text, and the text."""
    text = json.dumps(document, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def unseal(line: bytes) -> dict[str, object]:
    """Check and read one line."""
    checksum, _, text = line.partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text[:-1]):
        raise ValueError("half-written or damaged")
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("no journal entry")
    return document


def encode(entry: Entry) -> str:
    """Write an entry as a line."""
    identity = entry.identity
    if isinstance(identity, GroupId):
        known: dict[str, object] = {"group": [identity.device, identity.inode]}
    elif isinstance(identity, ThreadId):
        known = {"thread": [identity.tid, identity.started]}
    else:
        known = {"pod": [identity.uid, identity.asked]}
    owner = {"owner": str(entry.owner)} if entry.owner is not None else {}
    values = {"original": entry.original, "ours": entry.ours}
    return seal({"path": entry.path, "file": entry.file, **known, **values, **owner})


def decode(document: dict[str, object]) -> Entry:
    """Read an entry, strictly, of this version or the one before."""
    path, file, ours, owner = document["path"], document["file"], document["ours"], document.get("owner", "")
    if not (isinstance(path, str) and isinstance(file, str) and isinstance(ours, list) and isinstance(owner, str)):
        raise ValueError("no journal entry")
    original, *values = (whole(number) for number in (document["original"], *ours))
    entry = Entry(path, file, identity_of(document), original, tuple(values), Owner.read(owner) if owner else None)
    return of_version_1(entry) if "device" in document else entry


def identity_of(document: dict[str, object]) -> Identity:
    """Read an entry's identity."""
    match document:
        case {"device": device, "inode": inode} | {"group": [device, inode]}:
            return GroupId(whole(device), whole(inode))
        case {"thread": [tid, started]}:
            return ThreadId(whole(tid), whole(started))
        case {"pod": [str(uid), str(asked)]}:
            return PodId(uid, asked)
    raise ValueError("no identity")


def of_version_1(entry: Entry) -> Entry:
    """Give types to what the version before this one wrote: two numbers for whatever is known, an owner for pods."""
    assert isinstance(entry.identity, GroupId)
    match entry.file:
        case "sched_runtime":
            return replace(entry, identity=ThreadId(entry.identity.device, entry.identity.inode))
        case "cpu.idle":
            return replace(entry, ours=(IDLE,))
        case "requests.cpu" if entry.owner is not None:
            return replace(entry, identity=PodId(entry.owner.name, entry.owner.where), owner=None)
    return entry


def whole(value: object) -> int:
    """Accept whole numbers only; JSON's true is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")
    return value


def write_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Write a file of our own; ``durable``: have the disk hold it before returning."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
