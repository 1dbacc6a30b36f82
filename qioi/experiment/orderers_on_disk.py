"""The bundled ledger with its orderers' ledgers alone on a disk: one line of Fig. 6 of StreamChain's workshop paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qioi.experiment.places import DISK
from qioi.lab.lab import digest_of
from qioi.lab.network import Network
from qioi.lab.options import LabOptions
from qioi.lab.systems import SYSTEMS
from qioi.lab.systems.ledger import LedgerSystem
from qioi.model import Role

#: By which name the lab makes it, meanwhile: a user who brings up a lab is not offered it.
NAME = "ledger-orderers-on-disk"


def place(directory: Path) -> Path:
    """Name the folder of these ledgers by their lab's.

    What a killed run has left, the next lab in that folder removes, or `qioi lab down`. After a reboot, which takes a
    lab's folder in memory with it, only the next run of this kind does.
    """
    return DISK.with_name(f"{DISK.name}-orderers-{digest_of(directory)}")


def flushed(directory: Path, store: str | None) -> Path:
    """Name a folder on the medium to which the orderers of a lab in ``directory`` flush."""
    return place(directory) if store == "orderers" else directory


class OrderersOnDisk(LedgerSystem):
    """The bundled ledger, whose orderers find a link to a folder on a disk in place of their own."""

    def __init__(self, directory: Path, options: LabOptions) -> None:
        super().__init__(directory, options)
        self._disk = self.elsewhere = place(directory)

    def lay_out(self) -> Network:
        """Have the network made, and each orderer's ledger, which is not there yet, on the disk."""
        network = super().lay_out()
        data = self._directory / "data"
        data.mkdir(exist_ok=True)
        for node in network.nodes:
            if node.role is Role.ORDERER:
                (self._disk / node.name).mkdir(parents=True)
                (data / node.name).symlink_to(self._disk / node.name)
        return network


@contextmanager
def orderers_on_disk() -> Iterator[None]:
    """Let labs be made so."""
    SYSTEMS[NAME] = OrderersOnDisk
    try:
        yield
    finally:
        del SYSTEMS[NAME]
