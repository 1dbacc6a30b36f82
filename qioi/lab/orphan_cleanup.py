"""Takes a lab of containers down when the process that brought it up has ended, also by SIGKILL.

The kernel kills processes with their parent, but containers are children of the engine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from qioi.processes.after_death import AfterDeath


def orphan_cleanup(directory: Path) -> AfterDeath:
    """Have the lab in a folder taken down when this process dies."""
    return AfterDeath([sys.executable, "-m", "qioi.cli", "lab", "down", "--dir", str(directory)])
