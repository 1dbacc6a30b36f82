"""HTTP answers whose head is short. The library takes heads of 6 MB, and many endpoints may answer at once."""

from __future__ import annotations

import http.client
from typing import Any

#: Bytes of a status line and all headers.
MOST_OF_HEAD = 64 * 1024


class ShortHeaded(http.client.HTTPResponse):
    """An answer whose head may have :data:`MOST_OF_HEAD` bytes."""

    def begin(self) -> None:
        """Read the head. ValueError: it is too long."""
        whole = self.fp
        self.fp = _Head(whole)  # type: ignore[assignment]
        try:
            super().begin()
        finally:
            if self.fp is not None:  # else there is no body
                self.fp = whole


class _Head:
    """The beginning of what a file has; only its lines are counted."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._room = MOST_OF_HEAD

    def readline(self, limit: int) -> bytes:
        line: bytes = self._file.readline(min(limit, self._room + 1))
        self._room -= len(line)
        if self._room < 0:
            raise ValueError(f"a head of more than {MOST_OF_HEAD} bytes")
        return line

    def close(self) -> None:
        self._file.close()
