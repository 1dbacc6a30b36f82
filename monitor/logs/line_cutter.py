"""Cuts what is read from a file into complete lines, in bounded memory."""

from __future__ import annotations

from qioi.monitor.commits.counters import Skip, SourceCounters

#: Bytes that are kept of an unfinished line. Docker's longest piece, 16 KB with every byte escaped, fits.
MAX_LINE = 256 * 1024


class LineCutter:
    """Keeps the unfinished last line until its rest comes; of one that grows too long, the rest is passed over.

    An empty line takes its place, so that an engine's record which continues a line is not joined to an older piece.
    """

    __slots__ = ("_counters", "_max_line", "_partial", "_skipping")

    def __init__(self, counters: SourceCounters, max_line: int = MAX_LINE) -> None:
        self._counters = counters
        self._max_line = max_line
        self._partial = b""
        self._skipping = False

    @property
    def unfinished(self) -> bool:
        """Whether the beginning of a line is kept."""
        return bool(self._partial)

    def feed(self, data: bytes) -> bytes:
        """Take what was read; give the complete lines, each with its line feed, or nothing."""
        end = data.rfind(b"\n") + 1
        block = data[:end]
        if end:
            block = block[block.index(b"\n") :] if self._skipping else self._partial + block
            self._partial, self._skipping = b"", False
        if not self._skipping:
            self._partial += data[end:]
            if len(self._partial) > self._max_line:
                self.give_up()
        return block

    def give_up(self) -> None:
        """Pass over the rest of the line that is being read."""
        self._counters.skip(Skip.TOO_LONG)
        self._partial, self._skipping = b"", True

    def restart_within_a_line(self) -> None:
        """Go on at some other place of the file: what comes there first is the rest of a line, and is passed over."""
        self._partial, self._skipping = b"", True

    def rest(self) -> bytes:
        """Give the unfinished line as if it were complete: nothing will follow it."""
        block = self._partial + b"\n" if self._partial or self._skipping else b""
        self._partial, self._skipping = b"", False
        return block

    def copy(self) -> LineCutter:
        """Make another one in the same state."""
        other = LineCutter(self._counters, self._max_line)
        other._partial, other._skipping = self._partial, self._skipping
        return other
