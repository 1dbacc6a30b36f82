"""Paths of control groups, below the CPU controller's mount and without a leading slash; the mount's own is empty."""

from __future__ import annotations

from collections.abc import Iterable

#: What the mount's own group is called where it is shown.
ROOT = "/"


def chain(group: str) -> tuple[str, ...]:
    """Give a group and those above it, from the inside out, without the mount's own."""
    parts = group.split("/")
    return tuple("/".join(parts[:depth]) for depth in range(len(parts), 0, -1))


def parent_of(group: str) -> str:
    """Give the group above; above the outermost is the mount's own, which is empty."""
    return group.rpartition("/")[0]


def branches(groups: Iterable[str]) -> dict[str, set[str]]:
    """Give all groups above these, the mount's own included, each with those of its children that lead to these."""
    found: dict[str, set[str]] = {}
    levels = set(groups)
    while levels:
        for level in levels:
            found.setdefault(parent_of(level), set()).add(level)
        levels = {parent for level in levels if (parent := parent_of(level))}
    return found
