"""A log that somebody writes to."""

from __future__ import annotations

from pathlib import Path


def append(path: Path, text: bytes) -> None:
    """Write to the end of a log."""
    with path.open("ab") as file:
        file.write(text)
