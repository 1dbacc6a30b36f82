"""The journal: the original of every changed value, durable before the change is made.

The journal is one small file, replaced as a whole (write, fsync, rename, fsync of the folder), so a crash leaves the
old file or the new one. Each line carries its own checksum: of a damaged file, the readable lines are used and the
others are named, never guessed. The first line names the boot: after a restart of the host its control groups are new
ones, and only the owners' records are left to restore.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from qioi.controller.levers.idle import IDLE
from qioi.controller.levers.lever import GroupId, Identity, PodId, ThreadId
from qioi.kernel.regular import read_own
from qioi.model import Owner

VERSION = 2
#: The file for shares.
NAME = "journal"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Entry:
    """One value that we changed: of the lever ``file``, at ``path``.

    ``path`` names a group (a thread's entry names the thread's group) or a pod. ``original`` and ``ours`` are in the
    lever's own unit. ``ours`` are all values that may be in force because we wrote them: the last one, the next one
    while it is being written, and those on the record of the ``owner``.
    """

    path: str
    file: str
    identity: Identity
    original: int
    ours: tuple[int, ...]
    owner: Owner | None = None

    @property
    def place(self) -> str | int:
        """The place of the lever: a thread's number, or the path."""
        return self.identity.tid if isinstance(self.identity, ThreadId) else self.path

    @property
    def outlives_boot(self) -> bool:
        """Whether the value is still to be restored after a restart of the host, which ends groups and threads."""
        return self.owner is not None or isinstance(self.identity, PodId)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The contents of a journal file. ``problems`` names each line that could not be read, in one clause."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    other_boot: bool = False


class Journal:
    """The journal file in ``folder``; each kind of lever other than shares has a file of another ``name``."""

    def __init__(self, folder: Path, boot_id: Path = BOOT_ID, name: str = NAME) -> None:
        self._folder = folder
        self._boot = boot_id.read_text(encoding="utf-8").strip()
        self.file = folder / name

    def store(self, entries: Iterable[Entry], *, durable: bool = True) -> None:
        """Replace the file's entries with these; without entries, remove the file. OSError: nothing has changed.

        ``durable=False`` suffices where the disk already holds the originals: ``ours`` matters only after a crash of
        the daemon, which the page cache survives, because a crash of the host ends every control group. Waiting for
        the disk may take seconds on a host that is short of CPU. A folder that somebody has removed is made again.
        """
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        lines = [encode(entry) for entry in entries]
        if lines:
            content = "".join([seal({"journal": VERSION, "boot": self._boot, "entries": len(lines)}), *lines])
            self._put(self.file, content.encode(), durable=durable)
        elif self.file.exists():  # on a read-only disk unlinking what is not there fails as well
            self.file.unlink()
        if durable:
            sync_folder(self._folder)

    def _put(self, path: Path, content: bytes, *, durable: bool) -> None:
        """Write a file beside the journal, or the journal, as a whole. OSError: nothing has changed."""
        temporary = self.file.with_name(f"{self.file.name}.new")
        try:
            write_file(temporary, content, durable=durable)
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise

    def load(self) -> Loaded:
        """Read the file; a missing one holds nothing. OSError: it could not be read."""
        try:
            lines = read_own(self.file).splitlines(keepends=True)
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
        """Keep a damaged journal under a second name, so that a person can look at it; return that path. OSError.

        The first name stays until the next journal is stored, because what can be read is still to be restored.
        """
        stem = f"{self.file.name}.damaged"
        paths = (self.file.with_name(stem if number == 1 else f"{stem}-{number}") for number in count(1))
        aside = next(path for path in paths if not path.exists() or self._is_copy(path))
        if not aside.exists():
            try:
                aside.hardlink_to(self.file)
            except OSError:  # of a file system without hard links, such as vfat
                self._put(aside, read_own(self.file), durable=True)
        sync_folder(self._folder)
        return aside

    def _is_copy(self, path: Path) -> bool:
        """Whether a file has what the journal has; one that can't be read has not."""
        try:
            return read_own(path) == read_own(self.file)
        except OSError:
            return False


def seal(document: dict[str, object]) -> str:
    """Make a line: the CRC-32 of the JSON text, and the text."""
    text = json.dumps(document, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def unseal(line: bytes) -> dict[str, object]:
    """Check and read one line. ValueError."""
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
    """Read an entry of this version or of version 1, strictly. ValueError, KeyError."""
    path, file, ours, owner = document["path"], document["file"], document["ours"], document.get("owner", "")
    if not (isinstance(path, str) and isinstance(file, str) and isinstance(ours, list) and isinstance(owner, str)):
        raise ValueError("no journal entry")
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} leads out of the folder of all control groups")
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
    """Convert an entry of version 1, which wrote every identity as two numbers, and a pod as an owner."""
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
    """Accept whole numbers only; JSON's ``true`` is refused. ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")
    return value


def write_file(path: Path, content: bytes, *, durable: bool) -> None:
    """Write a file; with ``durable``, return only when the disk holds it. OSError.

    The file is always a new one. Whoever owns the folder may have put something else in its place: a link would have
    another file emptied, and a FIFO would be waited for.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        clear(path)
        descriptor = os.open(path, flags, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clear(path: Path) -> None:
    """Remove what is in the place of a new file. OSError: it cannot be removed, as a folder cannot."""
    try:
        path.unlink()
    except OSError as error:
        raise OSError(error.errno, f"{path.name} is in the way: {error.strerror}") from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
