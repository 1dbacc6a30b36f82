"""Log lines of one ledger process -> what they say happened: commits and Raft leader changes.

A commit is the message of Fabric's ``kvledger`` at INFO, in one of three wordings::

    1.1, 1.2      Channel [%s]: Committed block [%d] with %d transaction(s)
    1.3 - 1.4.1   [%s] Committed block [%d] with %d transaction(s) in %dms
                  (state_validation=%dms block_commit=%dms state_commit=%dms)
    1.4.2 - 3.x   the same with block_and_pvtdata_commit=%dms and, at the end, commitHash=[%x]

It must be the whole message of the line's own header. The parser cannot tell a forged line apart that a message with
line breaks holds as a whole in Fabric's *text* format (JSON and logfmt escape line breaks). The throughput windows
therefore check the order of each peer's blocks, and a component's log affects only the channels that it serves.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from qioi.model import Commit, LeaderChange
from qioi.model.names import CHANNEL
from qioi.monitor.commits.counters import Skip, SourceCounters
from qioi.monitor.commits.records import Record, parse_record, parse_second

Event = Commit | LeaderChange

#: Texts of which a line must hold one to be parsed.
COMMIT_MARKER = b"Committed block"  # the longer, the faster it is searched for
LEADER_MARKER = b"Raft leader changed"

_CHANNEL = CHANNEL.encode()
_COMMIT = re.compile(
    rb"(?:Channel \[(?P<old_channel>" + _CHANNEL + rb")\]: |\[(?P<channel>" + _CHANNEL + rb")\] )"
    rb"Committed block \[(?P<block>\d+)\] with (?P<transactions>\d+) transaction\(s\)"
    rb"(?P<durations> in \d{1,20}ms \(state_validation=\d{1,20}ms"
    rb" block_(?:and_pvtdata_)?commit=\d{1,20}ms state_commit=\d{1,20}ms\))?"
    rb"(?P<hash> commitHash=\[[0-9a-f]{0,128}\])?"
)
#: A whole line in Fabric's default format, from 2.4 on or before: all that :func:`parse_record`
#: and ``_COMMIT`` would find in it, in one go. Logs hold hardly any other commit lines.
_USUAL = re.compile(
    rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d{3}) UTC "
    rb"(?:[0-9a-f]{1,16} INFO \[kvledger\] \w{1,64} -> |\[kvledger\] \w{1,64} -> INFO [0-9a-f]{1,16} )"
    rb"\[(" + _CHANNEL + rb")\] Committed block \[(\d{1,20})\] with (\d{1,20}) transaction\(s\)"
    rb" in \d{1,20}ms \(state_validation=\d{1,20}ms"
    rb" block_(?:and_pvtdata_)?commit=\d{1,20}ms state_commit=\d{1,20}ms\)(?: commitHash=\[[0-9a-f]{0,128}\])?"
)
_LEADER = re.compile(
    rb"Raft leader changed: (?P<old>\d{1,20}) -> (?P<new>\d{1,20})(?P<fields>(?: \w{1,64}=\S{1,256})*)"
)
_CHANNEL_FIELD = re.compile(rb" channel=(" + _CHANNEL + rb")(?= |$)")
#: Where FABRIC_LOGGING_FORMAT is an operator's own, this is what may stand before the message.
_BARE_PREFIX = re.compile(
    rb"(?:[\d\-:.,+/TZ]+|UTC|GMT|INFO|info|\[kvledger\]|kvledger|[Cc]ommit(?:WithPvtData|Legacy)?|"
    rb"[0-9a-f]{1,16}|->|[|:\-]| )*"
)

_MAX_U64 = 2**64 - 1
#: Fabric's block holds at most MaxMessageCount transactions, a 32-bit number.
_MAX_U32 = 2**32 - 1


class CommitParser:
    """Reads the lines of one component.

    It remembers one thing: whether the log's lines have headers. Once one was seen, a commit message
    without a header is refused: it can only be the continuation of another message.
    """

    def __init__(
        self,
        component: str = "",
        channels: Collection[str] = (),
        counters: SourceCounters | None = None,
        elections: bool = True,
    ) -> None:
        """Read for a component. Without ``elections`` leader changes are not searched for: only orderers log them."""
        self.component = component
        self._elections = elections
        self.counters = counters if counters is not None else SourceCounters()
        self._channels = frozenset(channels)
        self._headers_seen = False

    def scan(self, lines: bytes) -> list[Event]:
        """Read a run of complete lines, the fast way: only lines that hold a marker are looked at."""
        self.counters.lines += len(lines) - len(lines.replace(b"\n", b""))  # what count() says, in a third of the time
        marked = _lines_with(COMMIT_MARKER, lines)
        if self._elections and LEADER_MARKER in lines:
            marked = sorted({*marked, *_lines_with(LEADER_MARKER, lines)})
        return [event for start, end in marked if (event := self.parse(lines[start:end])) is not None]

    def line(self, line: bytes) -> Event | None:
        """Read one line that a wrapper was taken off; a line without a marker costs two searches."""
        if COMMIT_MARKER in line or (self._elections and LEADER_MARKER in line):
            return self.parse(line)
        return None

    def parse(self, line: bytes) -> Event | None:
        """Take a marked line apart. Never raises, whatever the line holds; what is refused is counted."""
        usual = _USUAL.fullmatch(line)
        if usual is not None:
            second, fraction, channel, block, transactions = usual.groups()
            whole = parse_second(second)
            self._headers_seen = True
            instant = None if whole is None else whole + int(fraction) / 1000.0
            return self._accept(channel, int(block), int(transactions), instant)
        record = parse_record(line)
        if record is None:
            self.counters.skip(Skip.TOO_LONG)
            return None
        if record.has_header:
            self._headers_seen = True
            if LEADER_MARKER in record.message:
                return self._leader_change(record)
            if record.module != "kvledger" or record.level != "info":
                self.counters.skip(Skip.NOT_KVLEDGER)
                return None
            return self._commit(record, _COMMIT.fullmatch(record.message))
        if self._headers_seen:
            self.counters.skip(Skip.NO_HEADER)
            return None
        return self._bare(record)

    def _bare(self, record: Record) -> Event | None:
        """Read a line in a format of the operator's own: only the message, behind nothing but known words."""
        prefix = _BARE_PREFIX.match(record.message)
        start = prefix.end() if prefix else 0
        return self._commit(record, _COMMIT.fullmatch(record.message, start))

    def _commit(self, record: Record, match: re.Match[bytes] | None) -> Commit | None:
        if match is None:
            self.counters.skip(Skip.NOT_A_COMMIT)
            return None
        durations = match["durations"] is not None
        if (match["old_channel"] is None) != durations or (match["hash"] is not None and not durations):
            self.counters.skip(Skip.NOT_A_COMMIT)  # gossip's wording, or a mixture of two
            return None
        name = match["channel"] or match["old_channel"]
        number, count = _number(match["block"], _MAX_U64), _number(match["transactions"], _MAX_U32)
        return self._accept(name, number, count, record.time)

    def _accept(self, name: bytes, block: int | None, count: int | None, instant: float | None) -> Commit | None:
        """Make a commit of what a line says, if it is possible and of a channel that the component serves."""
        if block is None or count is None or block > _MAX_U64 or count > _MAX_U32:
            self.counters.skip(Skip.OUT_OF_RANGE)
            return None
        channel = name.decode("ascii")
        if self._channels and channel not in self._channels:
            self.counters.skip(Skip.FOREIGN_CHANNEL)
            return None
        self.counters.commits += 1
        return Commit(channel, block, count, instant, self.component)

    def _leader_change(self, record: Record) -> LeaderChange | None:
        match = _LEADER.fullmatch(record.message)
        if match is None or record.level != "info" or not record.module.endswith("etcdraft"):
            self.counters.skip(Skip.NOT_KVLEDGER if COMMIT_MARKER in record.message else Skip.NOT_A_COMMIT)
            return None
        old, new = _number(match["old"], _MAX_U64), _number(match["new"], _MAX_U64)
        if old is None or new is None:
            self.counters.skip(Skip.OUT_OF_RANGE)
            return None
        named = _CHANNEL_FIELD.search(match["fields"])
        channel = named[1].decode("ascii") if named else record.channel
        self.counters.leader_changes += 1
        return LeaderChange(old, new, record.time, channel, self.component)


def _lines_with(marker: bytes, lines: bytes) -> list[tuple[int, int]]:
    """Say where the lines that hold a marker begin and end."""
    found: list[tuple[int, int]] = []
    position = lines.find(marker)
    while position >= 0:
        end = lines.find(b"\n", position)
        end = len(lines) if end < 0 else end
        found.append((lines.rfind(b"\n", 0, position) + 1, end))
        position = lines.find(marker, end)
    return found


def _number(digits: bytes, limit: int) -> int | None:
    """Read a decimal number up to a limit; the length is checked first, so that no digits are wasted time on."""
    if len(digits) > 20:
        return None
    value = int(digits)
    return value if value <= limit else None
