"""What a child writes to its standard error: read, so that it never waits for room, and logged once."""

from __future__ import annotations

import logging
import os
from typing import IO

from qioi.model.names import in_one_line

log = logging.getLogger("qioi")

#: Different lines that are logged, of all children together that one reader had; further ones are passed over.
MOST_SAID = 16
#: Bytes of a line that are kept, and that one look reads.
MOST_KEPT, _MOST_READ = 4096, 64 * 1024


class Complaints:
    """Reads the standard errors of children that follow one another. ``about`` begins each line of the log."""

    def __init__(self, about: str) -> None:
        self._about = about
        self._said: set[str] = set()
        #: The last line; empty before there is one.
        self.last = ""
        #: The beginning of the line that is being written.
        self.unfinished = b""

    def begin(self, pipe: IO[bytes]) -> None:
        """Listen to another child."""
        os.set_blocking(pipe.fileno(), False)
        self.last, self.unfinished = "", b""

    def read(self, pipe: IO[bytes]) -> None:
        """Read what there is, up to a bound; never waits."""
        try:
            self.take(os.read(pipe.fileno(), _MOST_READ))
        except BlockingIOError:
            return

    def take(self, data: bytes) -> None:
        """Take in what was read."""
        *lines, rest = (self.unfinished + data).split(b"\n")
        self.unfinished = rest[:MOST_KEPT]
        for line in lines:
            self._say(line)

    def end(self) -> None:
        """Take the beginning of a line for the last that the child says."""
        self._say(self.unfinished)
        self.unfinished = b""

    def _say(self, line: bytes) -> None:
        text = in_one_line(line[:MOST_KEPT].decode(errors="replace").strip())
        if not text:
            return
        self.last = text
        if text not in self._said and len(self._said) < MOST_SAID:
            self._said.add(text)
            log.warning("%s: %s", self._about, text)
