"""What the daemon's log lines look like: with a time of their own, or, in systemd's journal, with a priority.

The journal has a time for each line; what it lacks is how much a line matters. It takes that from `<N>` before the
line (sd-daemon(3)), so that `journalctl -u qioi -p warning` shows what is not as it should be, and nothing else.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TextIO

#: Priorities as syslog(3) counts them, by the least level that they stand for.
PRIORITY_ERROR = "<3>"
PRIORITIES = ((logging.ERROR, PRIORITY_ERROR), (logging.WARNING, "<4>"), (logging.INFO, "<6>"), (logging.NOTSET, "<7>"))


class JournalFormatter(logging.Formatter):
    """Puts the priority before each line, also those of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Spell a record."""
        mark = next(priority for level, priority in PRIORITIES if record.levelno >= level)
        return "\n".join(mark + line for line in super().format(record).splitlines())


def prepare(stream: TextIO, level: int, environment: Mapping[str, str] = os.environ) -> None:
    """Have everything from ``level`` on logged to ``stream``."""
    handler = logging.StreamHandler(stream)
    if is_journal(stream, environment):
        handler.setFormatter(JournalFormatter("%(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=level)


def is_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether systemd has connected this very stream to its journal (systemd.exec(5), JOURNAL_STREAM)."""
    try:
        there = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environment.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"
