"""Follows one file like ``tail -F``, by looking at it once per period.

It starts at the end and from then on hands out every line once, whatever happens to the file's name:

- *renamed and created anew* (logrotate, Docker's numbered json-files, kubelet): the old file is read to its end before
  the new one, and kept open for a while, because its writer may not have noticed yet. Where two rotations
  fall between two looks, the file in the middle is found under its number (``NAME.1``, ``NAME.2``…);
- *truncated*, also by ``copytruncate``: it is read again from its start. That it was truncated and has already grown
  beyond the old place is seen by the last bytes read, which are no longer there. What was written between the last look
  and the copy is taken from the copy, whatever its name, if it stands beside it and holds those same bytes; a copy that
  has the log's name later is gone on with;
- *copied to another place and linked*, or edited in place: the file that has the name then is gone on with, if it holds
  what was read where that stood;
- *deleted, and perhaps back later*: what the deleted file still gets is read while it is open.

Memory is bounded: at most ``max_read`` bytes per look (``backlog`` says that more waits) and ``max_line`` bytes of an
unfinished line; of a longer one the rest is skipped and counted. File descriptors are bounded by ``_MAX_OPEN``. A look
may be given fewer bytes; what may wait is then as many looks' worth.

The lag is bounded: where more than ``max_backlog`` bytes wait, all but the last ``max_read`` are passed over, and
``gaps`` says how many, and where (a peer at DEBUG writes ten times what is read of it).

An empty line stands for a line that was dropped, and for what was not read of a file.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from pathlib import Path

from qioi.monitor.commits.counters import Skip, SourceCounters
from qioi.monitor.logs.beside import MAX_NUMBERED, lost_beside, modified, newest_beside
from qioi.monitor.logs.line_cutter import MAX_LINE, LineCutter
from qioi.monitor.logs.open_log import FINGERPRINT, OpenLog, open_log

_READ_SIZE = 256 * 1024
#: Bytes that one look reads at most, and that may wait to be read.
MAX_READ, MAX_BACKLOG = 4 * 1024 * 1024, 16 * 1024 * 1024
#: Looks without news after which a file that lost its name is closed.
_LINGER = 10
_LINGER_DELETED = 600
#: How many files of one log are open at most, the current one included.
_MAX_OPEN = 16


class FileTail:
    """Follows one file. Not a thread: something happens only in :meth:`poll`."""

    def __init__(
        self,
        path: str | Path,
        counters: SourceCounters | None = None,
        *,
        max_line: int = MAX_LINE,
        max_read: int = MAX_READ,
        max_backlog: int = MAX_BACKLOG,
    ) -> None:
        self.path = str(path)
        self.counters = counters if counters is not None else SourceCounters()
        #: There is more to read than one look takes: the readings lag behind, or are of a part of the log.
        self.backlog = False
        #: Bytes that were passed over, or lost, by the number of the last look's block that they stood before.
        self.gaps: dict[int, int] = {}
        self._lost = 0  # behind all that the last look has read
        #: Why nothing can be read at present; ``None`` while the file is there.
        self.problem: str | None = None
        self._max_line = max_line
        self._max_read = max_read
        self._max_backlog = max_backlog
        self._files: deque[OpenLog] = deque()
        #: The last copy of before a truncation, as it was closed last; it may have the log's name again.
        self._copy: OpenLog | None = None
        #: A file that is found next was there before, so that what it holds is old.
        self._start_at_end = True
        self._deleted = False  # by the last look
        self._follow_name()

    def poll(self, most: int = MAX_READ) -> list[bytes]:
        """Read what is new, ``most`` bytes of it: blocks of complete lines, each line ending in a line feed."""
        blocks: list[bytes] = []
        budget = most = min(most, self._max_read)
        self.problem = None
        self._deleted = False
        self.gaps = {}
        self._miss(self._lost, blocks)
        self._lost = 0
        self._pass_over(blocks, most)
        budget = self._drain(blocks, budget)
        if self._name_points_elsewhere():
            # The old file may have grown between its last read and the rename.
            budget = self._drain(blocks, budget)
            self._follow_name()
            if budget > 0:
                self._pass_over(blocks, most)
                budget = self._drain(blocks, budget)
        self.backlog = budget <= 0 or self.gap > 0
        self._let_go(blocks)
        return blocks

    @property
    def gap(self) -> int:
        """Bytes that were passed over, or lost, before and between what the last look has read."""
        return sum(self.gaps.values())

    def close(self) -> None:
        """Close every file; harmless when repeated."""
        while self._files:
            self._files.popleft().close()

    # Reading

    def _drain(self, blocks: list[bytes], budget: int) -> int:
        for file in list(self._files):
            if budget <= 0:
                break
            try:
                budget = self._read(file, blocks, budget)
            except OSError as error:
                self._cannot_read(error)
                if file is not self._files[-1]:  # its name is another file's: nothing more may ever come of it
                    file.idle += 1
        return budget

    def _miss(self, size: int, blocks: list[bytes]) -> None:
        """Take in that bytes are not read which stood behind these blocks."""
        if size:
            self.gaps[len(blocks)] = self.gaps.get(len(blocks), 0) + size

    def _pass_over(self, blocks: list[bytes], most: int) -> None:
        """Where too much waits, go on near the end: what is read now tells how the channel is doing now."""
        waiting = [(file, self._waits(file)) for file in self._files]
        waits = sum(waits for _, waits in waiting)
        if waits <= self._max_backlog * most // self._max_read:
            return
        excess = waits - most
        self._miss(excess, blocks)
        self.counters.skipped_bytes += excess
        self.counters.skip(Skip.BACKLOG)
        for file, waits in waiting:
            part = min(excess, waits)
            excess -= part
            if part:
                file.offset += part
                file.lines.restart_within_a_line()
                start = max(0, file.offset - FINGERPRINT)
                file.fingerprint = b""
                with contextlib.suppress(OSError):  # without one it is recognised by its size alone
                    file.fingerprint = os.pread(file.fd, file.offset - start, start)

    def _waits(self, file: OpenLog) -> int:
        """Say how many bytes of a file are to be read, without a hole that they begin with."""
        try:
            file.found = os.fstat(file.fd)
            size = file.found.st_size
            waits = max(0, size - file.offset)
            if waits > self._max_backlog and not file.lines.unfinished:
                hole = file.hole(size)
                file.offset += hole
                waits -= hole
        except OSError:  # the read that follows says so
            file.found = None
            return 0
        return waits

    def _cannot_read(self, error: OSError) -> None:
        self.problem = f"{self.path}: cannot read: {error.strerror}"

    def _read(self, file: OpenLog, blocks: list[bytes], budget: int) -> int:
        found, file.found = file.found or os.fstat(file.fd), None
        size = found.st_size
        if size == file.offset and found.st_mtime_ns == file.modified:
            file.idle += 1
            return budget
        file.modified = found.st_mtime_ns
        if file.missing:
            self._miss(file.missing, blocks)
            file.missing = 0
            blocks.append(b"\n")
        if size < file.offset or not file.shows(file):
            budget = self._restart(file, blocks, budget)
        file.idle = 0
        # No more is asked for than there is: room for 256 KB takes 60 times as long to get as 60 KB take to read.
        while budget > 0 and file.offset < size:
            data = os.pread(file.fd, min(_READ_SIZE, budget, size - file.offset), file.offset)
            if not data:
                break
            if data[0] == 0 and not file.lines.unfinished and (hole := file.hole(size)):
                file.offset += hole
                continue
            file.offset += len(data)
            file.fingerprint = (
                (file.fingerprint + data)[-FINGERPRINT:] if len(data) < FINGERPRINT else data[-FINGERPRINT:]
            )
            budget -= len(data)
            self.counters.bytes += len(data)
            if block := file.lines.feed(data):
                blocks.append(block)
        return budget

    def _restart(self, file: OpenLog, blocks: list[bytes], budget: int) -> int:
        """Begin again in a truncated file, after what its copy still holds of the old content."""
        self.counters.truncations += 1
        copy = self._open_copy(file)
        file.offset, file.fingerprint, file.lines = 0, b"", self._cutter()
        if copy is None:  # what was written between the last look and now is not read
            self._miss(self._max_read, blocks)  # how much that was is not known
            blocks.append(b"\n")
            return budget
        self._files.insert(self._files.index(file), copy)
        return self._read(copy, blocks, budget)

    def _open_copy(self, file: OpenLog) -> OpenLog | None:
        for path in newest_beside(self.path):
            copy = self._open(path)
            if copy is None:
                continue
            if copy.key != file.key and copy.goes_on(file):
                copy.copied = True
                return copy
            copy.close()
        return None

    # Names

    def _name_points_elsewhere(self) -> bool:
        key = self._key_of_name()
        return key is not None and not (self._files and self._files[-1].key == key)

    def _key_of_name(self) -> tuple[int, int] | None:
        """Ask which file has the log's name; ``None`` where there is none."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 (a Path takes longer than the call)
        except OSError as error:
            self._is_away(error)
            return None
        return found.st_dev, found.st_ino

    def _follow_name(self) -> None:
        try:
            named = open_log(self.path, self._cutter())
        except OSError as error:
            self._is_away(error)
            return
        if self._go_on_with(named):
            return
        known, lost = len(self._files), 0
        if self._files:
            last = self._files[-1]
            between = self._numbered_between(last, named)
            if self._key_of_name() != named.key:
                # One of those may be newer than it, so all are left for the next look.
                for file in (*between, named):
                    file.close()
                return
            last.idle = 0
            lost = lost_beside(self.path, last.fd, between[0].fd if between else None)
            self.counters.lost_files += lost
            for file in between:
                self._add(file)
        if self._start_at_end:
            try:
                self._seek_to_end(named)
            except OSError as error:
                named.close()
                self._cannot_read(error)
                return
        self._add(named)
        if lost:
            self._files[known].missing = self._max_read  # how much that was is not known
        self._start_at_end = False

    def _go_on_with(self, named: OpenLog) -> bool:
        """Go on with what the name's file was read of already, under another name or as another file."""
        for file in self._files:
            if file.key == named.key:
                named.close()
                self._files.remove(file)
                self._files.append(file)
                file.copied = False
                return True
        if self._copy is not None and self._copy.key == named.key and named.goes_on(self._copy):
            self._add(named)
            return True
        if not self._files or not named.holds(self._files[-1]):
            return False
        last = self._files.pop()
        named.offset, named.fingerprint, named.lines = last.offset, last.fingerprint, last.lines.copy()
        self._files.append(named)
        last.close()
        return True

    def _is_away(self, error: OSError) -> None:
        self.problem = f"{self.path}: {error.strerror or error}"
        if isinstance(error, FileNotFoundError):
            self._deleted = True
            self._start_at_end = False  # whatever appears later is new to us

    def _numbered_between(self, old: OpenLog, named: OpenLog) -> list[OpenLog]:
        """Open the files that came and were rotated away between two looks, oldest first.

        They have lower numbers than the file that we know; where that one is gone, they have changed since it did.
        A rotation may be going on meanwhile: it moves files to higher numbers, the way that this search goes. What
        cannot be asked when it has changed is not known to be new, and is left out.
        """
        changed = modified(old.fd)
        if changed is None:
            return []
        known = {file.key for file in self._files} | {named.key}
        between: list[OpenLog] = []
        for number in range(1, MAX_NUMBERED + 1):
            file = self._open(f"{self.path}.{number}")
            if file is None:
                continue
            if file.key not in known and (modified(file.fd) or 0) >= changed:
                known.add(file.key)
                between.append(file)
                continue
            file.close()
            if file.key == old.key:
                break
        return between[::-1]

    def _add(self, file: OpenLog) -> None:
        if self._files:
            self.counters.rotations += 1
        self._files.append(file)

    def _seek_to_end(self, file: OpenLog) -> None:
        """Start at the end, but with a line that is just being written from its beginning."""
        size = os.fstat(file.fd).st_size
        tail = os.pread(file.fd, min(size, self._max_line), max(0, size - self._max_line))
        start = tail.rfind(b"\n") + 1
        file.offset = size
        if start or len(tail) == size:
            file.lines.feed(tail[start:])
        else:
            file.lines.give_up()
        file.fingerprint = tail[-FINGERPRINT:]

    @property
    def _patience(self) -> int:
        """Looks without news after which the oldest file is closed: while the others are empty its writer is there."""
        return _LINGER if any(file.offset for file in self._files if file is not self._files[0]) else _LINGER_DELETED

    def _let_go(self, blocks: list[bytes]) -> None:
        """Close files that lost their name and are silent; what they hold of a line is all that will ever come."""
        while len(self._files) > 1 and (self._files[0].idle >= self._patience or len(self._files) > _MAX_OPEN):
            unread = not self._files[0].idle
            self._lost += self._waits(self._files[0]) + self._files[0].missing
            self._close(self._files[0], blocks)
            if unread:
                self.counters.lost_files += 1
                blocks.append(b"\n")
        for file in [file for file in self._files if file.copied and not self._waits(file)]:
            self._copy = file
            self._close(file, blocks)
        if self.problem is not None and self._files and self._files[0].idle >= _LINGER_DELETED:
            # Otherwise a deleted log would occupy the disk for as long as the daemon runs.
            self._close(self._files[0], blocks)
            # One that is out of reach may be back.
            self._start_at_end = not self._files and not self._deleted

    def _close(self, file: OpenLog, blocks: list[bytes]) -> None:
        self._files.remove(file)
        begun = file.lines.unfinished
        rest = file.lines.rest()
        # Where the next file was read on meanwhile, an empty line would stand behind its lines, not where some miss.
        if rest and (begun or file.copied or not self._files):
            blocks.append(rest)
        if self._copy is not None and self._copy.key == file.key:
            self._copy = file  # it had the name for a while, and was read on
        file.close()

    def _open(self, path: str) -> OpenLog | None:
        try:
            return open_log(path, self._cutter())
        except OSError:
            return None

    def _cutter(self) -> LineCutter:
        return LineCutter(self.counters, self._max_line)
