"""A log that somebody writes to."""

from __future__ import annotations

from pathlib import Path


def append(path: Path, text: bytes) -> None:
    """Write to the end of a log."""
    with path.open("ab") as file:
        file.write(text)


def lines_of(blocks: list[bytes]) -> list[bytes]:
    """Cut blocks into lines; each block ends with one."""
    assert all(block.endswith(b"\n") for block in blocks)
    return b"".join(blocks).splitlines()
