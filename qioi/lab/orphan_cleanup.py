"""Takes a lab of containers down when the process that brought it up has ended, also by SIGKILL.

The kernel kills processes with their parent, but containers are children of the engine. So :class:`qioi.lab.lab.Lab`
has this module run after its own death. The engine may be slow then, or another command be at work on the lab, so it
tries for some minutes. It leaves a lab alone that somebody has brought up in the same folder meanwhile.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from qioi.kernel.errors import CgroupError
from qioi.lab.folder import marker_of
from qioi.lab.lab import Lab
from qioi.processes.errors import LabError

#: Seconds between two tries.
PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)


def take_down(directory: Path, marker: str) -> bool:
    """Take down the lab with that marker, also if its folder is gone; say whether there is no such lab any longer."""
    for pause in (*PAUSES, 0.0):
        try:
            Lab(directory).down(provided=lambda: marker_of(directory) in {marker, ""})
        except (LabError, CgroupError, OSError):
            time.sleep(pause)
        else:
            return True
    return False


if __name__ == "__main__":
    sys.exit(not take_down(Path(sys.argv[1]), sys.argv[2]))
