"""Follows what a systemd unit, or an engine for a container, logs to the journal, by looking at it once per period.

`journalctl` reads it: it knows the journal's files, their rotation and vacuuming, and is faster than anything in
Python. It is asked for the export format, since JSON turns every message with a colour in it into a list of numbers.
It starts at the end; should it end, it goes on after the last entry seen, by that entry's cursor.

The lag is bounded: where more than one look takes waited for some looks in a row, it goes on at the journal's end. So
it does where the pipe was full of entries from before the last look: journalctl has no CPU to fill it while it is read.

Memory is bounded: what waits is in a pipe of a megabyte at most, ``max_read`` bytes at most are taken per look, and
``max_line`` bytes of a message; of a longer one the rest is passed over and counted.

A unit is matched by ``_SYSTEMD_UNIT``, which journald itself writes: no other unit can write into its log.
journald drops messages beyond its own rate limit (10,000 in 30 s), which a busy peer exceeds; a unit lifts it by
LogRateLimitIntervalSec=0.
Source: systemd.journal-fields(7), Journal Export Formats (systemd.io).
"""

from __future__ import annotations

import fcntl
import math
import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from qioi.monitor.commits.counters import Skip, SourceCounters
from qioi.monitor.logs.complaints import Complaints
from qioi.monitor.logs.line_cutter import MAX_LINE

_READ_SIZE = 64 * 1024
#: Bytes that one look reads at most.
MAX_READ = 4 * 1024 * 1024
#: Bytes that a busy log's pipe may hold: on a full host journalctl fills it once in a period. Others keep the 64 KB of
#: any pipe. A user's pipes hold 64 MB together where CAP_SYS_RESOURCE and CAP_SYS_ADMIN are missing, as under the
#: unit, and those made beyond that hold 8 KB (pipe(7), pipe-user-pages-soft; Linux, fs/pipe.c).
_PIPE = 1024 * 1024
#: Seconds by which an entry is older than the last look where the pipe was full: it was not there for that look.
_LATE = 2.0
#: Looks between two attempts to start journalctl, where it cannot be started or ends at once; and looks after which one
#: that has told nothing is taken to be well.
_RETRY = 10
#: Seconds that the loop waits for a journalctl that was killed: of many on one hanging disk for each.
_PATIENCE = 0.1
#: Looks in a row that left something unread, after which it goes on at the end; and what is then taken to be left out.
_LOOKS_BEHIND, _UNKNOWN = 4, 64 * 1024 * 1024
#: Bytes of a field's name, or of a cursor: journald's own are far shorter.
_MAX_TEXT = 1024
#: Of a time in microseconds since the epoch.
_DIGITS = 20
#: What marks an entry as a piece of a line whose rest is in a later one: Docker cuts lines at 16 KB, Podman from 8 KB
#: on, journald those of a unit at 48 KB and at every NUL. The rest is no line of its own: the end of a line could
#: forge one.
_PIECES = frozenset({(b"CONTAINER_PARTIAL_MESSAGE", b"true"), (b"_LINE_BREAK", b"line-max"), (b"_LINE_BREAK", b"nul")})
#: What tells the pieces of one line from another's. Docker names the line (at least since 20.10.24); with Podman and
#: older Docker stdout has one priority and stderr another; journald names a unit's streams.
_LINE, _ORDINAL, _STREAM, _PRIORITY = (
    b"CONTAINER_PARTIAL_ID", b"CONTAINER_PARTIAL_ORDINAL", b"_STREAM_ID", b"PRIORITY",
)  # fmt: skip
_TOLD = frozenset({_LINE, _ORDINAL, _STREAM, _PRIORITY})
#: What is asked for: of a unit, and of a container.
UNIT_FIELDS = "MESSAGE,_LINE_BREAK,_STREAM_ID"
CONTAINER_FIELDS = "MESSAGE,CONTAINER_PARTIAL_MESSAGE,CONTAINER_PARTIAL_ID,CONTAINER_PARTIAL_ORDINAL,PRIORITY"
#: Unfinished lines that are kept, and streams that are known.
_MAX_OPEN, _MAX_STREAMS = 16, 256


class JournalTail:
    """Follows one unit, or what fits all of some matches (``FIELD=value``, with spaces between them).

    Not a thread: something happens only in :meth:`poll`.
    """

    def __init__(
        self,
        unit: str,
        counters: SourceCounters | None = None,
        *,
        max_line: int = MAX_LINE,
        max_read: int = MAX_READ,
    ) -> None:
        self.path = unit
        self.counters = counters if counters is not None else SourceCounters()
        #: There may be more to read than one look takes: the readings lag behind.
        self.backlog = False
        #: Why nothing can be read at present; ``None`` while journalctl runs and is well.
        self.problem: str | None = None
        #: Bytes that were passed over before what the last look has read.
        self.gap = 0
        self._behind = 0  # looks in a row
        self._most = max_read
        self._max_read = max_read  # of the present look
        self._entries = ExportReader(self.counters, max_line)
        self._complaints = Complaints(f"journal of {unit}: journalctl")
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: list[subprocess.Popen[bytes]] = []  # killed, and perhaps still there
        self._pause = 0  # looks until another journalctl may be started
        self._much = _PIPE // 2  # bytes of one look that show a full pipe
        self._looked_at = time.time()
        self._start()

    @property
    def gaps(self) -> dict[int, int]:
        """The bytes that were passed over, by the number of the last look's block that they stood before."""
        return {0: self.gap} if self.gap else {}

    def poll(self, most: int = MAX_READ) -> list[bytes]:
        """Read what is new, ``most`` bytes of it: blocks of complete lines, each line ending in a line feed."""
        self._max_read = min(most, self._most)
        self.gap = 0
        if self._ending:
            self._ending = [process for process in self._ending if process.poll() is None]
        if self._behind >= _LOOKS_BEHIND:
            self._pass_over()
        self._tend()
        if self._process is not None and self._process.stderr is not None:
            self._complaints.read(self._process.stderr)
        blocks: list[bytes] = []
        budget = self._max_read
        while self._process is not None and budget > 0:
            assert self._process.stdout is not None  # asked for in _start
            try:
                data = os.read(self._process.stdout.fileno(), _READ_SIZE)
            except BlockingIOError:
                break
            if not data:
                self._ended()
                break
            self.problem = None
            budget -= len(data)
            self.counters.bytes += len(data)
            if block := self._entries.feed(data):
                blocks.append(block)
        full = self._max_read - budget >= self._much
        if full:
            self._widen()
        is_behind = budget <= 0 or (full and self._entries.written < self._looked_at - _LATE)
        self._looked_at = time.time()
        self.backlog = is_behind or self.gap > 0
        self._behind = self._behind + 1 if is_behind else 0
        return blocks

    def _widen(self) -> None:
        """Have the pipe hold more; where that is refused, the next look that finds it full asks again."""
        if self._process is not None and self._much < _PIPE // 2:
            assert self._process.stdout is not None  # asked for in _start
            with suppress(OSError):
                self._much = fcntl.fcntl(self._process.stdout.fileno(), fcntl.F_SETPIPE_SZ, _PIPE) // 2

    def _tend(self) -> None:
        """Start journalctl where it does not run; where it has run for some looks, it is well."""
        self._pause = max(0, self._pause - 1)
        if self._pause == 0 and self._process is None:
            self._start()
        elif self._pause == 0:
            self.problem = None

    def _pass_over(self) -> None:
        """Go on at the journal's end; how much that leaves out is not known."""
        self.close()
        self._entries.pass_over()
        self._start()
        self._behind, self.gap = 0, _UNKNOWN
        self.counters.skip(Skip.BACKLOG)

    def close(self) -> None:
        """End journalctl; harmless when repeated. One that a hanging disk keeps is reaped later."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None  # asked for in _start
            pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
        self._ending.append(process)

    def _start(self) -> None:
        cursor = self._entries.cursor
        place = [f"--after-cursor={cursor}", "--no-tail"] if cursor else ["--lines=0"]
        is_unit = "=" not in self.path
        matches = [f"_SYSTEMD_UNIT={self.path}"] if is_unit else self.path.split(" ")
        fields = f"--output-fields={UNIT_FIELDS if is_unit else CONTAINER_FIELDS}"
        self._pause = _RETRY
        try:
            self._process = subprocess.Popen(
                ["journalctl", "--quiet", "--follow", *place, "--output=export", fields, *matches],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            self.problem = f"journal of {self.path}: journalctl: {error.strerror}"
            return
        assert self._process.stdout is not None  # asked for above, as is the other
        assert self._process.stderr is not None
        pipe = self._process.stdout.fileno()
        os.set_blocking(pipe, False)
        self._much = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) // 2
        self._complaints.begin(self._process.stderr)

    def _ended(self) -> None:
        """Say why; what it had not written completely comes again, after the last cursor."""
        process = self._process
        assert process is not None
        assert process.stderr is not None  # asked for in _start
        self._complaints.read(process.stderr)
        self._complaints.end()
        self.close()
        status = "it cannot be reaped yet" if process.returncode is None else f"exit status {process.returncode}"
        why = self._complaints.last or status
        self.problem = f"journal of {self.path}: journalctl has ended: {why}"
        self._entries.start_again()


class ExportReader:
    """Bytes of the export format in, messages out. An entry counts when it is complete.

    A field is ``NAME=text`` on a line, or, where the text has line feeds or other control characters, ``NAME`` on a
    line and then the text's length (8 bytes, little-endian), the text, and a line feed. An empty line ends an entry.
    """

    def __init__(self, counters: SourceCounters, max_line: int = MAX_LINE) -> None:
        #: Of the last complete entry; and when it was written, in seconds since the epoch.
        self.cursor = ""
        self.written = math.inf
        self._counters = counters
        self._max_line = max_line
        self._waiting = b""
        self._pieces = _Pieces(max_line)
        self.start_again()

    def start_again(self) -> None:
        """Forget an incomplete entry."""
        self._waiting = b""
        self._field = b""
        self._left = -1  # bytes of a binary field, with its line feed, that are yet to come; -1: no such field
        self._text = b""
        self._message: bytes | None = None
        self._is_piece = False
        self._told: dict[bytes, bytes] = {}  # of the line that the message is a piece of
        self._next_cursor = ""
        self._stamp = b""

    def pass_over(self) -> None:
        """Go on at another place: no rest of a line that stands there is read as a line."""
        self.start_again()
        self.cursor = ""
        self._pieces.tear()

    def feed(self, data: bytes) -> bytes:
        """Take what was read; give the messages of the entries that it completes, each ending in one line feed."""
        self._waiting += data
        place, lines = 0, []
        while True:
            if self._left >= 0:
                place = self._binary(place)
                if self._left >= 0:
                    break
                continue
            end = self._waiting.find(b"\n", place)
            if end < 0:
                break
            line, place_after = self._waiting[place:end], end + 1
            name, equals, value = line.partition(b"=")
            if not line:
                lines.append(self._complete())
            elif equals:
                self._take(name, value)
            elif len(self._waiting) < place_after + 8:
                break  # the length is yet to come
            else:
                self._field = line[:_MAX_TEXT]
                self._left = int.from_bytes(self._waiting[place_after : place_after + 8], "little") + 1
                place_after += 8
            place = place_after
        self._waiting = self._waiting[place:]
        if self._left < 0 and len(self._waiting) > self._max_line:  # one line, and longer than any that is kept
            name, equals, _ = self._waiting.partition(b"=")
            self._waiting = name[:_MAX_TEXT] + equals + self._waiting[-self._max_line - 1 :]
        return b"".join(lines)

    def _binary(self, place: int) -> int:
        """Take what is there of a binary field; of a long one only its length is kept count of."""
        part = self._waiting[place : place + self._left]
        self._left -= len(part)
        if len(self._text) <= self._max_line + 1:  # else it is too long whatever follows
            self._text += part
        if self._left == 0:
            self._take(self._field, self._text[:-1])
            self._text, self._left = b"", -1
        return place + len(part)

    def _take(self, name: bytes, value: bytes) -> None:
        if name == b"MESSAGE":
            self._message = value
        elif name == b"__CURSOR":
            self._next_cursor = value[:_MAX_TEXT].decode("ascii", "replace")
        elif name == b"__REALTIME_TIMESTAMP":
            self._stamp = value
        elif name in _TOLD:
            self._told[name] = value[:_MAX_TEXT]
        elif (name, value) in _PIECES:
            self._is_piece = True

    def _complete(self) -> bytes:
        """Give the entry's message as a line, and have its cursor as the place to go on after."""
        message, self._message = self._message, None
        is_piece, self._is_piece = self._is_piece, False
        self.cursor = self._next_cursor or self.cursor
        self.written = int(self._stamp) * 1e-6 if self._stamp.isdigit() and len(self._stamp) <= _DIGITS else math.inf
        line = None if message is None else self._pieces.join(message, is_piece, self._told)
        self._told.clear()
        if line is None:
            return b""
        if len(line) > self._max_line:
            self._counters.skip(Skip.TOO_LONG)
            return b""
        return line if line.endswith(b"\n") else line + b"\n"  # Podman's messages have their line feed in them


class _Pieces:
    """The unfinished lines. What is no whole line, since a part of it was not read, is left out."""

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        #: A line's or a stream's name -> the text so far, the oldest first.
        self.open: dict[bytes, bytes] = {}
        #: Streams that have ended a line since entries were passed over; ``None``: none were, and all are well.
        self._whole: set[bytes] | None = None

    def tear(self) -> None:
        """Take in that entries were not read: what comes next of a stream may be the end of a line."""
        self.open.clear()
        self._whole = set()

    def join(self, piece: bytes, is_piece: bool, told: Mapping[bytes, bytes]) -> bytes | None:
        """Add a piece; give the whole line when it is complete."""
        if not (is_piece or self.open or self._whole is not None or _LINE in told):  # as nearly all are
            return piece
        named = _LINE in told
        key = told[_LINE] if named else told.get(_STREAM) or told.get(_PRIORITY, b"")
        before = self.open.pop(key, None)
        if before is None:
            if named and told.get(_ORDINAL) != b"1":
                return None
            if not named and self._is_torn(key, is_piece):
                return None
            before = b""
        # A line that is too long already is so whatever follows.
        line = before + piece if len(before) <= self._max_line else before
        if not is_piece:
            return line
        self.open[key] = line
        if len(self.open) > _MAX_OPEN:
            self._drop_oldest()
        return None

    def _drop_oldest(self) -> None:
        """Make room. No more is read of a stream until the line that is dropped has ended."""
        oldest = next(iter(self.open))
        del self.open[oldest]
        if self._whole is None:
            self._whole = set(self.open)
        self._whole.discard(oldest)

    def _is_torn(self, stream: bytes, is_piece: bool) -> bool:
        """Whether what comes of a stream may belong to a line whose beginning was not read."""
        if self._whole is None or stream in self._whole:
            return False
        if not is_piece:
            if len(self._whole) >= _MAX_STREAMS:
                self._whole.clear()
            self._whole.add(stream)
        return True
