"""Takes off what a container engine puts around log lines: Docker's json-file and the CRI format.

Both engines cut long lines into pieces (Docker at 16 KB, CRI runtimes where their buffer ends), so a piece
is a line only together with those before it on the same stream. What does not speak of a commit or a leader
is thrown away unparsed: all but one line in fifty.

``{"log":"…\\n","stream":"stderr","time":"2026-…Z"}``       Docker; a piece that is not the last has no ``\\n``
``2026-…Z stderr F …``                                       CRI; ``P`` instead of ``F`` for such a piece
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from qioi.monitor.commits.counters import Skip, SourceCounters
from qioi.monitor.commits.parser import COMMIT_MARKER, LEADER_MARKER
from qioi.monitor.commits.records import MAX_RECORD, parse_time

#: A line that may be worth parsing, and the engine's own time stamp for it.
Unwrapped = tuple[bytes, float | None]

_STREAMS = frozenset({"stdout", "stderr"})
_CRI = re.compile(
    rb"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) (?P<stream>stdout|stderr) (?P<tag>[FP])(?::\S*)?(?: |$)"
)
#: How much of a line in pieces is kept: enough for the parser to see that it is too long.
_KEEP = 2 * MAX_RECORD

#: How Docker ends a complete line's text. Inside a JSON string a quote has a backslash before it, so that no process
#: can write this; a piece that ends in a backslash and an n is looked at the slow way.
_COMPLETE = b'\\n","stream":"'
_BACKSLASH = ord("\\")
#: What ends a line: the parser's fast way takes none. With a terminal it is both.
_ENDS = b"\r\n"


class LogFormat(StrEnum):
    """How a log wraps the lines that the process wrote. ``JOURNALD`` is a systemd unit's log, and no file."""

    PLAIN = "plain"
    DOCKER = "docker-json"
    CRI = "cri"
    JOURNALD = "journald"


class _Pieces:
    """The unfinished line of each stream."""

    def __init__(self) -> None:
        #: Stream -> the text so far.
        self.open: dict[str, bytes] = {}
        #: Streams whose next piece may go on with a line of which the beginning was not read.
        self.torn: set[str] = set()

    def tear(self) -> None:
        """Take in that records were not read: of each stream all is passed over up to the end of a line."""
        self.open.clear()
        self.torn = set(_STREAMS)

    def join(self, stream: str, text: bytes, complete: bool) -> bytes | None:
        """Add a piece; the whole line when it is complete (cut off where it is too long to matter)."""
        if stream in self.torn:
            if complete:
                self.torn.discard(stream)
            return None
        before = self.open.pop(stream, b"")
        whole = (before + text)[:_KEEP] if len(before) < _KEEP else before
        if complete:
            return whole
        self.open[stream] = whole
        return None


class Unwrapper(ABC):
    """Turns runs of complete raw lines into the marked lines that the process wrote."""

    def __init__(self, counters: SourceCounters) -> None:
        self._counters = counters
        self._pieces = _Pieces()

    @abstractmethod
    def feed(self, block: bytes) -> Iterator[Unwrapped]:
        """Yield the lines in ``block`` that hold a marker, without their ends.

        An empty line stands for records that were dropped.
        """

    def tear(self) -> None:
        """Take in that records were passed over: what comes next may be the end of a line."""
        self._pieces.tear()


class DockerUnwrapper(Unwrapper):
    """Docker's json-file driver."""

    def feed(self, block: bytes) -> Iterator[Unwrapped]:
        """Yield the lines in ``block`` that hold a marker."""
        for raw in _records(block):
            if not self._pieces.open and COMMIT_MARKER not in raw and LEADER_MARKER not in raw:
                end = raw.find(_COMPLETE)
                if end > 0 and raw[end - 1] != _BACKSLASH:
                    if self._pieces.torn:
                        self._pieces.torn.discard(
                            raw[end + len(_COMPLETE) :].partition(b'"')[0].decode("ascii", "replace")
                        )
                    continue
            if raw:
                yield from self._entry(raw)
            else:
                self._pieces.tear()

    def _entry(self, raw: bytes) -> Iterator[Unwrapped]:
        try:
            entry: Any = json.loads(raw)
        except (ValueError, RecursionError):
            entry = None
        text, stream = (entry.get("log"), entry.get("stream")) if isinstance(entry, dict) else (None, None)
        if not isinstance(text, str) or not isinstance(stream, str) or stream not in _STREAMS:
            self._counters.skip(Skip.BAD_WRAPPER)
            return
        line = self._pieces.join(stream, text.encode("utf-8", "replace"), text.endswith("\n"))
        if line is not None and _marked(line):
            stamp = entry.get("time")
            time = parse_time(stamp[:64].encode("utf-8", "replace")) if isinstance(stamp, str) else None
            yield line.rstrip(_ENDS), time


class CriUnwrapper(Unwrapper):
    """The Container Runtime Interface's format: containerd and CRI-O under Kubernetes, and Podman."""

    def feed(self, block: bytes) -> Iterator[Unwrapped]:
        """Yield the lines in ``block`` that hold a marker."""
        for raw in _records(block):
            found = _CRI.match(raw)
            if found is None:
                if raw:
                    self._counters.skip(Skip.BAD_WRAPPER)
                else:
                    self._pieces.tear()
                continue
            complete, stream = found["tag"] == b"F", found["stream"].decode("ascii")
            if complete and not self._pieces.open and COMMIT_MARKER not in raw and LEADER_MARKER not in raw:
                self._pieces.torn.discard(stream)
                continue
            line = self._pieces.join(stream, raw[found.end() :], complete)
            if line is not None and _marked(line):
                yield line.rstrip(_ENDS), parse_time(raw[:64])


def _records(block: bytes) -> list[bytes]:
    """Cut a run of complete raw lines into them."""
    records = block.split(b"\n")
    if not records[-1]:
        del records[-1]
    return records


def detect_format(head: bytes) -> LogFormat:
    """Tell a recorded log's format by its first complete line."""
    first = head.partition(b"\n")[0]
    if first.startswith(b'{"log":'):
        return LogFormat.DOCKER
    if _CRI.match(first):
        return LogFormat.CRI
    return LogFormat.PLAIN


def _marked(line: bytes) -> bool:
    return COMMIT_MARKER in line or LEADER_MARKER in line
