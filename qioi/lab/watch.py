"""Watches over a lab that another process brought up: is each node still the process that was started?"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from qioi.lab.network import Network
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines


class Watch:
    """The nodes whose processes a lab's state names; one made by hand need name none."""

    def __init__(self, network: Network, state: Mapping[str, Any]) -> None:
        pids, begun = state.get("pids", {}), state.get("begun", {})
        known = pids.keys() & begun.keys()
        self._nodes = [(node, pids[node.name], begun[node.name]) for node in network.nodes if node.name in known]

    def check(self, killed: Container[str] = ()) -> None:
        """Raise with the end of its log if one that is not ``killed`` has ended."""
        for node, pid, begun in self._nodes:
            if node.name not in killed and (begun is None or begun_at(pid) != begun):
                raise LabError(f"{node.name} (process {pid}) ended; its log ends:\n{last_lines(node.log)}")


def begun_at(pid: int) -> int | None:
    """Give when a process began, in clock ticks since the boot; ``None``: it has ended, be it reaped or not.

    Together with the pid, which is used again, it names one process.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace", encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])
