"""Systems under test, one file each: how each is installed, laid out and started, and when it can be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qioi.lab.options import LabOptions
from qioi.lab.systems.cassandra import CassandraSystem
from qioi.lab.systems.fabric import FabricSystem
from qioi.lab.systems.ledger import LedgerSystem
from qioi.lab.systems.mariadb import MariaDbSystem
from qioi.lab.systems.mysql import MySqlSystem
from qioi.lab.systems.system import System

#: How each system is made, by the name that ``--system`` takes.
SYSTEMS: dict[str, Callable[[Path, LabOptions], System]] = {
    "ledger": LedgerSystem,
    "fabric": FabricSystem,
    "cassandra": CassandraSystem,
    "mysql": MySqlSystem,
    "mariadb": MariaDbSystem,
}
#: Those that are ledgers: an experiment on one may be run on the other.
LEDGERS = ("ledger", "fabric")
#: Groups whose names begin so are killed when a lab goes down and its files go, too: asked to end, they wait for each
#: other, or drain. The names may be another system's as well.
KILLED = (*LedgerSystem.KILLED, *CassandraSystem.KILLED)

__all__ = ["KILLED", "LEDGERS", "SYSTEMS", "System"]
