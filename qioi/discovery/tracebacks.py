"""Errors that nobody has foreseen, in loops that try again: what each of them is stands in the log once."""

from __future__ import annotations

import logging
from collections import deque
from traceback import format_exception

log = logging.getLogger("qioi")

#: Different tracebacks that are remembered, the last ones.
KEPT = 16


class Tracebacks:
    """Logs the traceback of an error, unless it is one of those that came last."""

    def __init__(self) -> None:
        self._said: deque[str] = deque(maxlen=KEPT)

    def say(self, about: object, error: Exception) -> None:
        """Log it; ``about`` begins its first line."""
        text = "".join(format_exception(error))
        if text not in self._said:
            self._said.append(text)
            log.error("%s", about, exc_info=error)
