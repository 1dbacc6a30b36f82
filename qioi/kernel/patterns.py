"""Shell patterns for groups below a folder of the kernel's, where groups come and go while one looks."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path


def fitting(folder: Path, pattern: str) -> Iterator[str]:
    """Give the groups below a folder that a pattern fits: paths of folders, relative to it.

    The slash keeps out a group's many files, which ``**`` gives too, without a call of the system for each.
    A group that is removed meanwhile has nothing in it, and costs no other group its place. ``Path.glob`` raises
    FileNotFoundError there (Python 3.11).
    """
    found = glob.iglob(f"{pattern}/", root_dir=folder, recursive=True, include_hidden=True)  # noqa: PTH207 (as said above)
    for path in found:
        yield path.rstrip("/")
