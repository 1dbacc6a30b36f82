"""Control groups and processes for tests that look at real ones."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from waiting import DIES_WITH_TEST, remove_group, until

MOUNTS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))


class Groups:
    """Control groups below one of the test's own, and processes in them.

    ``accounts`` is the same place where the controller of CPU accounts is mounted apart (cgroup v1).
    """

    def __init__(self, base: Path, accounts: Path | None = None) -> None:
        self.base = base
        self.accounts = accounts
        self.processes: list[subprocess.Popen[bytes]] = []
        self._numbers = itertools.count()

    def make(self, *parts: str) -> Path:
        group = self.base.joinpath(*(parts or (f"g{next(self._numbers)}",)))
        for one in self.places(group):
            one.mkdir(parents=True)
        return group

    def places(self, group: Path) -> list[Path]:
        """The group in each hierarchy."""
        return [group] if self.accounts is None else [group, self.accounts / group.relative_to(self.base)]

    def run(
        self, group: Path, code: str, stdin: int | None = None, stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Run Python in a group; from its first instruction on it is on CPU 0 and in the group."""
        start = "import os;os.sched_setaffinity(0,{0})\n"
        start += "".join(f"open({str(one / 'cgroup.procs')!r},'w').write('0')\n" for one in self.places(group))
        process = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", start + code], stdin=stdin, stdout=stdout)
        self.processes.append(process)
        until(lambda: str(process.pid) in (group / "cgroup.procs").read_text().split())
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def remove(self) -> None:
        for process in self.processes:
            self.end(process)
        for base in (one for one in (self.base, self.accounts) if one is not None and one.exists()):
            for group in sorted(base.rglob("*"), key=lambda path: -len(path.parts)):
                if group.is_dir():
                    remove_group(group)
            remove_group(base)
