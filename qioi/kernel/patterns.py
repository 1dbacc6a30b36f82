"""Shell patterns for paths below a folder of the kernel's, where groups come and go while one looks."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path


def fitting(folder: Path, pattern: str) -> Iterator[str]:
    """Give the paths below a folder that a pattern fits, relative to the folder.

    A group that is removed meanwhile has nothing in it, and costs no other group its place. ``Path.glob`` raises
    FileNotFoundError there (Python 3.11).
    """
    found = glob.iglob(pattern, root_dir=folder, recursive=True, include_hidden=True)  # noqa: PTH207 (as said above)
    for path in found:
        yield path.rstrip("/")
