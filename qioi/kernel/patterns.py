"""Shell patterns for groups below a folder of the kernel's, where groups come and go while one looks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from pathlib import Path

_MAGIC = re.compile(r"[*?[]")


def fitting(folder: Path, pattern: str) -> Iterator[str]:
    """Give the groups below a folder that a pattern fits: paths of folders, relative to it.

    ``**`` fits any number of folders. A group that is removed meanwhile has nothing in it, and costs no other group its
    place.

    Most groups have none below them, and have fifty files. They are not listed, as :mod:`glob` would: a tree of 3,000
    takes a fifth of the time.
    """
    parts = [part for part in pattern.split("/") if part]
    yield from (path for path in _fitting(f"{folder}/", "", parts) if path)


def _fitting(root: str, path: str, parts: Sequence[str]) -> Iterator[str]:
    """Give what fits the rest of a pattern below a path that has fitted its beginning."""
    if not parts:
        yield path
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        for below in _tree(root, path):
            yield from _fitting(root, below, rest)
    elif _MAGIC.search(first):
        fits = re.compile(translate(first)).match
        for name in _folders(root + path):
            if fits(name):
                yield from _fitting(root, _join(path, name), rest)
    else:
        named = _join(path, first)
        if os.path.isdir(root + named):  # noqa: PTH112 (a Path takes longer than the call)
            yield from _fitting(root, named, rest)


def _tree(root: str, path: str) -> Iterator[str]:
    """Give a folder and all below it. Calls do not nest: others' groups may lie a thousand deep in each other."""
    left = [path]
    while left:
        path = left.pop()
        yield path
        left += [_join(path, name) for name in reversed(_folders(root + path))]


def _folders(folder: str) -> list[str]:
    """List the folders in one; none where it is gone."""
    try:
        # A directory's link count is two and one for each directory in it; where a file system has none it is one.
        if os.stat(folder).st_nlink == 2:  # noqa: PTH116 (as above)
            return []
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
