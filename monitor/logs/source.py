"""One component's log as a source of events: a file, or a unit's journal, that is followed, unwrapped and parsed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from msgspec.structs import replace

from qioi.monitor.commits.counters import Skip, SourceCounters
from qioi.monitor.commits.parser import CommitParser, Event
from qioi.monitor.logs.journald import JournalTail
from qioi.monitor.logs.tail import FileTail
from qioi.monitor.logs.work import MOST, SEARCHED, Effort, Part
from qioi.monitor.logs.wrappers import CriUnwrapper, DockerUnwrapper, LogFormat, Unwrapper


class LineReader:
    """Blocks of raw lines in, events out: the part of a source that does no I/O."""

    def __init__(
        self,
        component: str,
        log_format: LogFormat | str = LogFormat.PLAIN,
        channels: Collection[str] = (),
        counters: SourceCounters | None = None,
        elections: bool = True,
    ) -> None:
        self.counters = counters if counters is not None else SourceCounters()
        self._parser = CommitParser(component, channels, self.counters, elections)
        self._unwrapper = _unwrapper(LogFormat(log_format), self.counters)

    def start_again(self) -> None:
        """Forget the pieces of lines whose rest was passed over, and read no rest of one as a line."""
        if self._unwrapper is not None:
            self._unwrapper.tear()

    def feed(self, block: bytes) -> list[Event]:
        """Read a run of complete lines."""
        if self._unwrapper is None:
            return self._parser.scan(block)
        self.counters.lines += block.count(b"\n")
        events: list[Event] = []
        for line, stamp in self._unwrapper.feed(block):
            event = self._parser.line(line)
            if event is not None:
                events.append(event if event.time is not None else replace(event, time=stamp))
        return events


class LogSource:
    """Follows the log of one component; ask it once per period. No thread, one open file in the usual case.

    ``path`` is the file's, or the systemd unit's name; without ``elections`` leader changes are not searched for.
    """

    def __init__(
        self,
        path: str | Path,
        component: str,
        *,
        log_format: LogFormat | str = LogFormat.PLAIN,
        channels: Collection[str] = (),
        elections: bool = True,
    ) -> None:
        self.component = component
        self.counters = SourceCounters()
        #: What the last look took, in the unit of :mod:`qioi.monitor.logs.work`.
        self.work = 0
        self._has_passed = False  # over lines that were too many for the last look
        self._effort = Effort(log_format in (LogFormat.DOCKER, LogFormat.CRI), elections)
        self._reader = LineReader(component, log_format, channels, self.counters, elections)
        self._tail: FileTail | JournalTail
        if log_format == LogFormat.JOURNALD:
            self._tail = JournalTail(str(path), self.counters)
        else:
            self._tail = FileTail(path, self.counters)

    @property
    def path(self) -> str:
        """The file or unit that is followed."""
        return self._tail.path

    @property
    def backlog(self) -> bool:
        """Whether the last look left something unread: the writer is faster than the bound on one look."""
        return self._tail.backlog or self._has_passed

    @property
    def problem(self) -> str | None:
        """Why nothing can be read at present, in one line; ``None`` while all is well."""
        return self._tail.problem

    def poll(self) -> list[Event]:
        """Say what happened since the last look, in the order of the log."""
        return [event for _, events in self.parts() for event in events]

    def parts(self, most: int = MOST) -> list[tuple[int, list[Event]]]:
        """Say it with what was not read: bytes that were passed over or lost, and the events that stood behind them.

        It takes as much work as ``most`` says, of which half may go into bytes that nothing is found in.
        """
        blocks, gaps = self._tail.poll(max(1, most // 2) * SEARCHED), self._tail.gaps
        if len(blocks) in gaps:  # behind all that was read
            blocks.append(b"")
        parts: list[Part] = [(gaps.get(place, 0), block) for place, block in enumerate(blocks)]
        parts, passed, self.work = self._effort.newest(parts, most)
        self._has_passed = passed > 0
        if passed:
            self.counters.skipped_bytes += passed
            self.counters.skip(Skip.BACKLOG)
        return [(gap, self._read(block, gap)) for gap, block in parts]

    def _read(self, block: bytes, gap: int) -> list[Event]:
        if gap:
            self._reader.start_again()
        return self._reader.feed(block)

    def close(self) -> None:
        """Close what is followed; harmless when repeated."""
        self._tail.close()


def _unwrapper(log_format: LogFormat, counters: SourceCounters) -> Unwrapper | None:
    match log_format:
        case LogFormat.DOCKER:
            return DockerUnwrapper(counters)
        case LogFormat.CRI:
            return CriUnwrapper(counters)
        case LogFormat.PLAIN | LogFormat.JOURNALD:
            return None
