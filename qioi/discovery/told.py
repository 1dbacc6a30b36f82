"""What Docker is about to be told of containers' shares, on a disk before it is told.

Docker keeps its record on a disk, and gives a container that it starts again the share on it, also after a power cut.
The guard's journal is gone by then, with all control groups: it is in memory, since the loop waits for it. So whoever
tells Docker, a thread of its own, first writes down here what the share was and will be. One small file for each
record, replaced as a whole; ids of containers are never used again, so no boot needs to be named.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from qioi.controller.guard.journal import Entry, decode, encode, seal, sync_folder, unseal, whole, write_file
from qioi.kernel.regular import read_own
from qioi.model import Owner

log = logging.getLogger("qioi")

VERSION = 2
#: The folder of these files in the one that the configuration names.
FOLDER = "records"


@dataclass(frozen=True, slots=True)
class Told:
    """One record. ``entry`` is in the control group's unit, ``found``, what was on record, in the engine's."""

    entry: Entry
    found: int


class ToldFiles:
    """The files below ``record_dir``, which is made when it is first needed."""

    def __init__(self, record_dir: Path) -> None:
        self.folder = record_dir / FOLDER

    def store(self, told: Told) -> None:
        """Have the disk hold it before returning. OSError: it does not; what was there before still is."""
        assert told.entry.owner is not None  # else there is no record
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        file = self._file(told.entry.owner)
        temporary = file.with_name(f"{file.name}.new")
        content = seal({"record": VERSION, "found": told.found}) + encode(told.entry)
        try:
            write_file(temporary, content.encode(), durable=True)
            temporary.replace(file)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(self.folder)

    def of(self, owner: Owner) -> Told | None:
        """Read what is known of a record. OSError; ValueError: it is damaged."""
        try:
            return parse(read_own(self._file(owner)))
        except FileNotFoundError:
            return None

    def forget(self, owner: Owner) -> None:
        """Nothing of ours is on the record any more. A file that a power cut brings back names nothing that is."""
        try:
            self._file(owner).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s: %s: it stays, and is looked at again at the next start", self._file(owner), error.strerror)

    def any(self) -> bool:
        """Whether anything is to be looked at; what may not be looked into counts."""
        try:
            return any(self.folder.iterdir())
        except PermissionError:
            return True
        except OSError:
            return False

    def load(self) -> tuple[list[Entry], list[str]]:
        """Read all, before anything is told: damaged ones are set aside, and named in the second list, one line each.

        What a daemon that was killed had half written is removed: Docker was not told of it.
        """
        entries: list[Entry] = []
        problems: list[str] = []
        try:
            found = sorted(one for one in self.folder.iterdir() if one.suffix != ".damaged")
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        except OSError as error:
            return [], [f"{self.folder}: {error.strerror}: what Docker has on record of ours is not known"]
        for half in (one for one in found if one.suffix == ".new"):
            with suppress(OSError):  # a disk that takes nothing can still be read
                half.unlink()
        for file in (one for one in found if one.suffix != ".new"):
            try:
                entries.append(parse(read_own(file)).entry)
            except ValueError as error:
                problems.append(f"{file}: {error}: this record stays as it is; {set_aside(file)}")
            except OSError as error:
                problems.append(f"{file}: {error.strerror}: this record stays as it is")
        return entries, problems

    def _file(self, owner: Owner) -> Path:
        """Name the file of a record: the engine's word for its container must not lead elsewhere."""
        return self.folder / quote(f"{owner.kind}-{owner.name}", safe="")


def set_aside(file: Path) -> str:
    """Rename a damaged file, so that a person can look at it, if the disk takes that; say what became of it."""
    aside = file.with_name(f"{file.name}.damaged")
    try:
        file.replace(aside)
    except OSError as error:
        return f"it cannot be set aside: {error.strerror}"
    return f"kept as {aside.name}"


def parse(content: bytes) -> Told:
    """Read one file, strictly. ValueError."""
    lines = content.splitlines(keepends=True)
    if len(lines) != 2:
        raise ValueError("half-written or damaged")
    head = unseal(lines[0])
    if head.get("record") not in (1, VERSION):
        raise ValueError(f"version {head.get('record')!r}, accepted is {VERSION}")
    try:
        return Told(decode(unseal(lines[1])), whole(head["found"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no record: {error}") from None
