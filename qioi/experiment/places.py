"""Where the labs of experiments stand: in memory or on a disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qioi.experiment.errors import SpecError
from qioi.experiment.spec import ExperimentSpec
from qioi.experiment.system import NetworkSpec
from qioi.lab.demo import ROOM, demo_directory, is_others
from qioi.lab.flush_probe import file_system
from qioi.lab.lab import digest_of

#: Always one of these unless a run names its own, so that the next run removes what a killed one has left in either.
MEMORY, DISK = Path("/dev/shm/qioi-experiment"), Path("/var/lib/qioi-experiment")


def usual_folder(spec: ExperimentSpec, noted: Mapping[str, str]) -> Path:
    """Choose where an experiment's ledgers stand where a run names no folder: in memory if there is room, or on a disk.

    A run that is gone on with stays on the media that it has ``noted``. SpecError: these are in memory, where is no
    room or somebody else's folder.
    """
    usual = DISK if spec.disk else demo_directory(MEMORY, DISK)
    if spec.disk or not noted or media(spec.networks, usual) == noted:
        return usual
    if usual == MEMORY:
        return DISK
    if media(spec.networks, MEMORY) != noted:
        return usual  # who compares both says so
    why, remedy = f"{ROOM / 2**30:g} GiB are not free now", "free that memory"
    if is_others(MEMORY):
        why, remedy = "a folder is now that is not this user's own", "have it removed, or `chown` and `chmod go-w` it"
    raise SpecError(
        [
            f"{spec.name}: the run's ledgers stood in memory ({MEMORY}), where {why}, and not on a disk ({DISK}): "
            f"{remedy}, or begin a new run without --resume"
        ]
    )


def standing(directory: Path, store: str | None) -> Path:
    """Give the folder for a network with that store; a run's own folder serves where it is of that kind."""
    if store is None or (store != "disk") == in_memory(directory):
        return directory
    return DISK if store == "disk" else MEMORY


def scratch_of(ledgers: Path, own: Path) -> Path:
    """Choose where neighbours write that are to disturb a disk: on the ledgers', or to their own folder."""
    return own if in_memory(ledgers) else ledgers


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
