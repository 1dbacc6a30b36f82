"""Files of the kernel's that refuse to be written for a while, as below a mount that is read-only."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def read_only(file: Path) -> Iterator[None]:
    """Have the kernel refuse writes to a file."""
    subprocess.run(["mount", "--bind", str(file), str(file)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(file)], check=True)
        yield
    finally:
        # A process may have the file open at this instant.
        subprocess.run(["umount", "--lazy", str(file)], check=True)
