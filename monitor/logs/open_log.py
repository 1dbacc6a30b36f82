"""One opened file of a log that is followed."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass

from qioi.kernel.regular import open_regular
from qioi.monitor.logs.line_cutter import LineCutter

#: How many of the last bytes read are kept, to recognise the file by.
FINGERPRINT = 64
#: Bytes at the beginning, and before the place that was read up to, by which another file is known to hold the same.
_SAME = 4096


@dataclass(slots=True)
class OpenLog:
    """One opened file, how far it has been read, and when it had last been written to by then (ns)."""

    fd: int
    device: int
    inode: int
    offset: int
    lines: LineCutter
    fingerprint: bytes = b""
    modified: int = -1
    idle: int = 0
    #: As it was when it was asked for what waits, until it is read.
    found: os.stat_result | None = None
    #: Bytes of lost files that stood before this one, until it is read.
    missing: int = 0
    #: Made by copytruncate: complete, and perhaps overwritten by the next copy.
    copied: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from all other files."""
        return self.device, self.inode

    def close(self) -> None:
        """Close it. It is closed also where that fails, as of one whose server is away."""
        with contextlib.suppress(OSError):
            os.close(self.fd)

    def holds(self, other: OpenLog) -> bool:
        """Whether it begins with what was read of another one; lines have times, so that two places tell."""
        if other.offset < FINGERPRINT:
            return False
        size = min(_SAME, other.offset)
        try:
            return all(
                os.pread(self.fd, size, start) == os.pread(other.fd, size, start) for start in (0, other.offset - size)
            )
        except OSError:  # what cannot be read is read from its beginning, if ever
            return False

    def shows(self, other: OpenLog) -> bool:
        """Whether the last bytes that were read, of this file or of another, stand at their place here. OSError."""
        known = other.fingerprint
        return os.pread(self.fd, len(known), other.offset - len(known)) == known

    def goes_on(self, other: OpenLog) -> bool:
        """Begin where another file was read up to, if that can be recognised; whether it is."""
        with contextlib.suppress(OSError):  # what cannot be read is not recognised
            if other.fingerprint and self.shows(other):
                self.offset, self.fingerprint, self.lines = other.offset, other.fingerprint, other.lines.copy()
                return True
        return False

    def hole(self, size: int) -> int:
        """Measure the hole at its offset, as a writer that does not append leaves one in a truncated file. OSError."""
        try:
            return os.lseek(self.fd, self.offset, os.SEEK_DATA) - self.offset
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: nothing but a hole up to the end
                raise
            return max(0, size - self.offset)


def open_log(path: str, lines: LineCutter) -> OpenLog:
    """Open a file, to be read from its beginning. OSError, also for what is no regular file."""
    fd = open_regular(path, follow=True)
    try:
        found = os.fstat(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise
    return OpenLog(fd, found.st_dev, found.st_ino, 0, lines)
