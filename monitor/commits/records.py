"""One log line of Fabric -> who said it, at which level, when, and what.

Fabric logs in three encodings, chosen by ``FABRIC_LOGGING_FORMAT``:

- text, up to 2.3: ``TIME [module] func -> LEVL id MESSAGE``; from 2.4: ``TIME id LEVL [module] func -> MESSAGE``;
- JSON (``json``): ``{"level":"info","ts":EPOCH,"name":"module","caller":"…","msg":"MESSAGE", fields…}``;
- logfmt (``logfmt``): ``ts=EPOCH level=info name=module caller=… msg="MESSAGE" fields…``.

The *first* header in a line is the line's own: whatever looks like one further right is part of its
message, where a chaincode or a client may have put it. Everything works on bytes, in time linear in
the length of the line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

#: Longest line that is looked into. A commit line has about 250 bytes; whatever carries the
#: words in a longer one is some other message.
MAX_RECORD = 4096

_ANSI = re.compile(rb"\x1b\[[0-9;:?]*[ -/]*[@-~]")

_HEADER = re.compile(
    rb"(?:\b[0-9a-f]{1,16} (?P<level_new>[A-Z]{4,6}) )?"
    rb"\[(?P<module>[^\]\[\s]{1,128})\] \S{0,160} -> "
    rb"(?:(?P<level_old>[A-Z]{4,6}) [0-9a-f]{1,16} )?"
)

_TIME = re.compile(
    rb"(?P<year>[12]\d{3})-(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    rb"(?:[.,](?P<fraction>\d{1,9}))?(?:[ ]?(?P<sign>[+-])(?P<zone_hour>\d\d):?(?P<zone_minute>\d\d)\b)?"
)

_LOGFMT_PAIR = re.compile(
    rb'(?P<key>[A-Za-z_][\w.\-/]{0,63})=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"]*))(?=\s|$)'
)
_LOGFMT_START = re.compile(rb"\bts=\S{1,40} level=")
_ESCAPED = re.compile(rb"\\(.)")
_EPOCH = re.compile(r"\d{1,12}(?:\.\d{1,12})?(?:[eE]\+?\d{1,2})?", re.ASCII)

#: Pairs of a logfmt line that are looked at: the encoder's own are its first, and Fabric adds a few fields.
_MAX_PAIRS = 64
#: Text, as far as a header's own time stamp may stand before it (a collector's prefix included).
_MAX_PREFIX = 512
#: The last second of year 9999: later "times" are none.
_MAX_EPOCH = 253_402_300_799.0
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Record:
    """A log line taken apart. ``level`` is in lower case.

    Where the line has no header that is known, ``module`` is empty and ``message`` is the whole line.
    ``channel`` is the structured field of that name, which JSON and logfmt carry outside the message.
    """

    module: str
    level: str
    time: float | None
    message: bytes
    channel: str | None = None

    @property
    def has_header(self) -> bool:
        """Whether the line said which module wrote it."""
        return bool(self.module)


def strip_ansi(line: bytes) -> bytes:
    """Remove terminal escape sequences."""
    return _ANSI.sub(b"", line) if b"\x1b" in line else line


def parse_time(text: bytes) -> float | None:
    """Read the first ISO-like time stamp: seconds since the epoch. No zone means UTC, as Fabric's do."""
    match = _TIME.search(text)
    return _seconds(match) if match else None


@lru_cache(maxsize=64)
def parse_second(text: bytes) -> float | None:
    """Read a stamp in UTC without its fraction. Lines come by the dozen a second, so the last ones are remembered."""
    return parse_time(text)


def parse_epoch(value: object) -> float | None:
    """Read an epoch time as JSON and logfmt give it, or an ISO-like one; ``None`` for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if not _EPOCH.fullmatch(value):
            return parse_time(value[:64].encode("utf-8", "replace"))
        value = float(value)
    if isinstance(value, int | float) and 0 < value <= _MAX_EPOCH:
        return float(value)
    return None


def parse_record(line: bytes) -> Record | None:
    """Take one line apart; ``None`` if it is too long to be looked into."""
    line = line.lstrip(b"\0")  # a file truncated under a writer that does not append is filled up with them
    if len(line) > MAX_RECORD:
        return None
    line = strip_ansi(line).strip()
    brace = line.find(b'{"', 0, _MAX_PREFIX)
    if brace >= 0 and _HEADER.search(line, 0, brace) is None:
        # A header inside broken JSON would be part of some message: it is not looked for.
        return _from_json(line[brace:]) or Record("", "", None, line)
    head = _HEADER.search(line)
    logfmt = _LOGFMT_START.search(line, 0, min(head.start() if head else len(line), _MAX_PREFIX))
    if logfmt is not None:
        return _from_logfmt(line[logfmt.start() :])
    if head is None or head.start() > _MAX_PREFIX:
        return Record("", "", parse_time(line[:_MAX_PREFIX]), line)
    level = head["level_new"] or head["level_old"] or b""
    return Record(
        head["module"].decode("utf-8", "replace"),
        level.decode("ascii").lower(),
        _last_time(line[: head.start()]),
        line[head.end() :],
    )


def _from_json(text: bytes) -> Record | None:
    try:
        entry: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    module, level, message, channel = (entry.get(key) for key in ("name", "level", "msg", "channel"))
    if not (isinstance(module, str) and isinstance(level, str) and isinstance(message, str) and module):
        return None
    return Record(
        module,
        level.lower(),
        parse_epoch(entry.get("ts")),
        message.encode("utf-8", "replace").strip(),
        channel if isinstance(channel, str) else None,
    )


def _from_logfmt(text: bytes) -> Record:
    pairs: dict[bytes, bytes] = {}
    position = 0
    for _ in range(_MAX_PAIRS):
        match = _LOGFMT_PAIR.match(text, position)
        if match is None:
            break
        quoted = match["quoted"]
        value = match["plain"] if quoted is None else _ESCAPED.sub(rb"\1", quoted)
        pairs.setdefault(match["key"], value)  # the encoder's own keys come first, so the first one wins
        position = match.end()
        while text[position : position + 1] == b" ":
            position += 1
    channel = pairs.get(b"channel")
    return Record(
        pairs.get(b"name", b"").decode("utf-8", "replace"),
        pairs.get(b"level", b"").decode("utf-8", "replace").lower(),
        parse_epoch(pairs.get(b"ts", b"").decode("utf-8", "replace")),
        pairs.get(b"msg", b"").strip(),
        channel.decode("utf-8", "replace") if channel else None,
    )


def _last_time(text: bytes) -> float | None:
    """Read the stamp next to the header: a collector may have put its own before it."""
    stamps = list(_TIME.finditer(text))
    return _seconds(stamps[-1]) if stamps else None


def _seconds(match: re.Match[bytes]) -> float | None:
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    if hour > 23 or minute > 59 or second > 60:  # 60 is a leap second
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    if match["sign"]:
        zone = int(match["zone_hour"]) * 3600 + int(match["zone_minute"]) * 60
        seconds += zone if match["sign"] == b"-" else -zone
    fraction = match["fraction"]
    return seconds + int(fraction) / 10.0 ** len(fraction) if fraction else float(seconds)
