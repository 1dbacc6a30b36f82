"""Format the daemon's log lines: with a time, or, for systemd's journal, with a priority.

The journal has a time for each line, and takes the line's priority from a leading `<N>` (sd-daemon(3)). So
`journalctl -u qioi -p warning` shows only warnings and errors.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TextIO

from qioi.model.names import printable

#: The priorities of syslog(3), by the lowest logging level of each.
PRIORITY_ERROR = "<3>"
PRIORITIES = ((logging.ERROR, PRIORITY_ERROR), (logging.WARNING, "<4>"), (logging.INFO, "<6>"), (logging.NOTSET, "<7>"))


class LineFormatter(logging.Formatter):
    """Makes all lines of a record fit for a terminal: any user may put escape sequences into a group's name."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        return "\n".join(printable(line) for line in super().format(record).splitlines())


class JournalFormatter(LineFormatter):
    """Puts the priority before each line, also before those of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        mark = next(priority for level, priority in PRIORITIES if record.levelno >= level)
        return "\n".join(mark + line for line in super().format(record).splitlines())


def prepare(stream: TextIO, level: int, environment: Mapping[str, str] = os.environ) -> None:
    """Log every record of at least ``level`` to ``stream``."""
    handler = logging.StreamHandler(stream)
    if is_journal(stream, environment):
        handler.setFormatter(JournalFormatter("%(message)s"))
    else:
        handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=level)


def is_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether systemd has connected this stream to its journal (systemd.exec(5), JOURNAL_STREAM)."""
    try:
        there = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environment.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"
