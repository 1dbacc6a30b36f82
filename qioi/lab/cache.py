"""Folders of fetched packages in the user's cache: complete or not there, also when several processes make one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from qioi.lab.signals import uninterrupted
from qioi.processes.errors import LabError


def cache_directory() -> Path:
    """Where installs are kept: $QIOI_CACHE, or ``qioi`` in the user's cache folder."""
    override = os.environ.get("QIOI_CACHE")
    if override:
        return Path(override).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qioi"


def make_whole(target: Path, fill: Callable[[Path], None]) -> None:
    """Let ``fill`` write a folder's content under another name, and rename it to ``target``."""
    root = target.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=root))
    except OSError as error:
        raise LabError(f"{root}: {error.strerror}; name a folder that can be written to in QIOI_CACHE") from error
    try:
        fill(making)
        # Another process may have been faster; its folder is the same.
        with contextlib.suppress(OSError):
            making.rename(target)
    finally:
        with uninterrupted():
            shutil.rmtree(making, ignore_errors=True)
    if not target.is_dir():
        raise LabError(f"{target} could not be made; is {root} writable?")
