"""What all interferers share: named programs below a tree, each in a control group of its own, with a log each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from qioi.model import DEFAULT_SHARES
from qioi.processes.cgroups import Group
from qioi.processes.errors import LabError
from qioi.processes.launch import Running, last_lines
from qioi.processes.tree import Program, Tree


class Processes:
    """Programs of different kinds, by name; who starts one puts it into ``_processes``."""

    def __init__(self, tree: Tree, names: Sequence[str], directory: Path) -> None:
        self.names = tuple(names)
        self._tree, self._directory = tree, directory
        self._processes: dict[str, Running] = {}

    @property
    def groups(self) -> tuple[Group, ...]:
        """The control groups, in the order of ``names``."""
        return tuple(self._tree.group(name) for name in self.names)

    def check(self) -> None:
        """Raise if one has ended by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise LabError(
                    f"{name} ended by itself (status {process.returncode}): {last_lines(self._log(name), 4)}"
                )

    def stop(self) -> None:
        """Kill all, and what they have started, and remove their groups; logs stay. It may be repeated."""
        self._tree.remove(self.groups, grace=0)
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"


class Instances(Processes, ABC):
    """N instances of one program: ``stem`` and a number from 1 name each, :meth:`command` says what it runs."""

    def __init__(self, tree: Tree, stem: str, count: int, directory: Path, shares: int = DEFAULT_SHARES) -> None:
        super().__init__(tree, [f"{stem}{index + 1}" for index in range(count)], directory)
        self._shares = shares

    @abstractmethod
    def command(self, name: str) -> list[str]:
        """Give what an instance runs."""

    def folders(self, name: str) -> Sequence[Path]:
        """Give the folders of the host that an instance needs beside its log's."""
        return ()

    def prepare(self) -> None:
        """Prepare a place for each, so that all start at once."""
        for name in self.names:
            self._tree.prepare(name, self._shares, self.folders(name))

    def start(self) -> None:
        """Start all; they die with the starting process."""
        for name in self.names:
            self._start(name)

    def _start(self, name: str) -> None:
        log = self._log(name)
        log.unlink(missing_ok=True)  # what an earlier run has left there would be read first
        program = Program(name, self.command(name), shares=self._shares, log=log, die_with_parent=True)
        self._processes[name] = self._tree.start(program)
