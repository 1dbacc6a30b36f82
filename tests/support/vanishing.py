"""A group that is removed between two steps of a look: after its parent was listed, before it is listed itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def vanishes(monkeypatch: pytest.MonkeyPatch, group: Path) -> None:
    """Have a group removed just before it is listed."""
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path) == group and group.exists():
            remove(group)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)


def remove(group: Path) -> None:
    """Remove a group with all that is in it."""
    for below in group.iterdir():
        if below.is_dir():
            remove(below)
        else:
            below.unlink()
    group.rmdir()
