"""Any program as a neighbour: N of a command that a file names, each in a control group of its own."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from qioi.lab.figures import Series
from qioi.model import DEFAULT_SHARES
from qioi.processes.cgroups import Group
from qioi.processes.errors import LabError
from qioi.processes.launch import Running, last_lines
from qioi.processes.tree import Program, Tree


def program_binary(command: str) -> str:
    """Find the program of a command, or say that it is missing."""
    name = shlex.split(command)[0]
    found = shutil.which(name)
    if found is None:
        raise LabError(f"{name}, the program of a neighbour, is not on the PATH")
    return found


class Programs:
    """N instances of one command below ``tree``. What they do is not known, so their CPU time is all that counts."""

    unit = ""

    def __init__(self, tree: Tree, command: str, count: int, directory: Path, shares: int = DEFAULT_SHARES) -> None:
        self._binary, self._arguments = program_binary(command), shlex.split(command)[1:]
        stem = Path(self._binary).name
        self.names = tuple(f"{stem}{index + 1}" for index in range(count))
        self._tree, self._directory, self._shares = tree, directory, shares
        self._processes: dict[str, Running] = {}

    @property
    def groups(self) -> tuple[Group, ...]:
        """The control groups, one per instance, in the order of ``names``."""
        return tuple(self._tree.group(name) for name in self.names)

    def prepare(self) -> None:
        """Prepare a place for each instance, so that all start at once."""
        for name in self.names:
            self._tree.prepare(name, self._shares)

    def start(self) -> None:
        """Start all instances; they die with the starting process."""
        for name in self.names:
            command = [self._binary, *self._arguments]
            self._processes[name] = self._tree.start(
                Program(name, command, shares=self._shares, log=self._log(name), die_with_parent=True)
            )

    def check(self) -> None:
        """Raise if an instance has ended by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise LabError(
                    f"{name} ended by itself (status {process.returncode}): {last_lines(self._log(name), 3)}"
                )

    def stop(self) -> None:
        """Kill them, and what they have started, and remove their groups."""
        self._tree.remove(self.groups, grace=0)
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def work(self, since: float, until: float) -> float | None:
        """Give nothing."""
        return None

    def over_time(self) -> Series:
        """Give nothing."""
        return ()

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"
