"""What whoever owns a folder may put in the place of a file there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

KINDS = ["FIFO", "socket", "device", "folder", "link"]


def plant(path: Path, kind: str) -> None:
    """Put something other than a regular file at ``path``."""
    match kind:
        case "FIFO":
            os.mkfifo(path)
        case "socket":
            os.mknod(path, stat.S_IFSOCK | 0o600)
        case "device":
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        case "folder":
            path.mkdir()
        case "link":
            path.with_name("target").write_text("whole\n")
            path.symlink_to(path.with_name("target"))
