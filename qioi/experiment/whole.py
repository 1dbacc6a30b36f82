"""Files that are whole whenever they are read: each is written beside its place, and then takes it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

#: How a file's name ends that is not whole yet; one is left only where its writer was killed.
NEW = ".new"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, which takes the place of ``path`` in the end; after an error ``path`` is as it was."""
    # Two commands may write the index over runs at once.
    new = path.with_name(f"{path.name}.{os.getpid()}{NEW}")
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8. OSError; the file is as it was then."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")
