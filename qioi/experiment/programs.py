"""Any program as a neighbour: N of a command that a file names, each in a control group of its own."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from qioi.experiment.neighbours import Untold
from qioi.interference import Instances
from qioi.model import DEFAULT_SHARES
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree


def program_binary(command: str) -> str:
    """Find the program of a command, or say that it is missing."""
    name = shlex.split(command)[0]
    found = shutil.which(name)
    if found is None:
        raise LabError(f"{name}, the program of a neighbour, is not on the PATH")
    return found


class Programs(Untold, Instances):
    """N instances of one command below ``tree``. What they do is not known, so their CPU time is all that counts."""

    def __init__(self, tree: Tree, command: str, count: int, directory: Path, shares: int = DEFAULT_SHARES) -> None:
        binary, arguments = program_binary(command), shlex.split(command)[1:]
        super().__init__(tree, Path(binary).name, count, directory, shares)
        self._command = [binary, *arguments]

    def command(self, name: str) -> list[str]:
        """Give what each runs."""
        return self._command
