"""The bundled ledger with its orderers' ledgers alone on a disk: one line of Fig. 6 of StreamChain's workshop paper."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from qioi.experiment.places import DISK
from qioi.lab.network import Network
from qioi.lab.systems import SYSTEMS
from qioi.lab.systems.ledger import LedgerSystem
from qioi.model import Role

#: By which name the lab makes it, meanwhile: a user who brings up a lab is not offered it.
NAME = "ledger-orderers-on-disk"
#: Where these ledgers stand: one folder for all labs, so that the next run removes what a killed one has left.
ORDERERS = DISK.with_name(f"{DISK.name}-orderers")


class OrderersOnDisk(LedgerSystem):
    """The bundled ledger, whose orderers find a link to a folder on a disk in place of their own."""

    def lay_out(self) -> Network:
        """Have the network made, and each orderer's ledger, which is not there yet, on the disk."""
        network = super().lay_out()
        data = self._directory / "data"
        data.mkdir(exist_ok=True)
        for node in network.nodes:
            if node.role is Role.ORDERER:
                (ORDERERS / node.name).mkdir(parents=True)
                (data / node.name).symlink_to(ORDERERS / node.name)
        return network


@contextmanager
def orderers_on_disk() -> Iterator[None]:
    """Let labs be made so, and begin and end without :data:`ORDERERS`."""
    shutil.rmtree(ORDERERS, ignore_errors=True)
    SYSTEMS[NAME] = OrderersOnDisk
    try:
        yield
    finally:
        del SYSTEMS[NAME]
        shutil.rmtree(ORDERERS, ignore_errors=True)
