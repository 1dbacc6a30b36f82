"""The nodes of a lab that another process brought up: whether each is still the process that was started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines


@dataclass(frozen=True, slots=True)
class Watched:
    """One node's process. ``begun`` is its start in clock ticks since the boot: process ids are used again."""

    name: str
    pid: int
    begun: int
    log: Path

    def check(self) -> None:
        """Raise with the end of its log if it has ended."""
        if begun_at(self.pid) != self.begun:
            raise LabError(f"{self.name} (process {self.pid}) ended; its log ends:\n{last_lines(self.log)}")


def begun_at(pid: int) -> int | None:
    """Give the start of a process in clock ticks since the boot; ``None``: it has ended, be it reaped or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def watched(state: Mapping[str, Any], logs: Mapping[str, Path]) -> tuple[Watched, ...]:
    """Find the nodes of a lab's state; one whose process it does not name, as in a file made by hand, is left out."""
    pids, begun = state.get("pids", {}), state.get("begun", {})
    known = pids.keys() & begun.keys()
    return tuple(Watched(name, pids[name], begun[name], log) for name, log in logs.items() if name in known)
