"""Where the labs of experiments stand: in memory or on a disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qioi.experiment.system import NetworkSpec
from qioi.lab.flush_probe import file_system
from qioi.lab.lab import digest_of

#: Always one of these unless a run names its own, so that the next run removes what a killed one has left.
MEMORY, DISK = Path("/dev/shm/qioi-experiment"), Path("/var/lib/qioi-experiment")


def standing(directory: Path, store: str | None) -> Path:
    """Give the folder for a network with that store; a run's own folder serves where it is of that kind."""
    if store is None or (store != "disk") == in_memory(directory):
        return directory
    return DISK if store == "disk" else MEMORY


def media(networks: Mapping[str, NetworkSpec], directory: Path) -> dict[str, str]:
    """Say of each network whether its ledgers stand in "memory" or on a "disk", where ``directory`` is theirs."""
    return {
        name: "memory" if in_memory(standing(directory, network.store)) else "disk"
        for name, network in networks.items()
    }


def own_folder(directory: Path) -> str:
    """Tell a folder that a run names from others, without its place on this machine; empty for the usual ones."""
    return "" if directory in (MEMORY, DISK) else digest_of(directory.resolve())


def in_memory(directory: Path) -> bool:
    """Whether a folder, which need not be there yet, is in memory."""
    while not directory.exists():
        directory = directory.parent
    return file_system(directory) == "tmpfs"
