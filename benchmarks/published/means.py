"""What some pieces need that not every host has: each says in one line why it is not there, ``None`` if it is."""

from __future__ import annotations

from pathlib import Path

import bench_growth_kubernetes
import bench_growth_length

from qioi.lab.engine import LabEngine, engine_socket
from qioi.processes.errors import LabError


def engine() -> str | None:
    """Look for a Docker engine."""
    try:
        LabEngine(engine_socket()).close()
    except LabError as error:
        return str(error)
    return None


def api_server() -> str | None:
    """Look for what a Kubernetes API server is started from."""
    return bench_growth_kubernetes.lacks()


def disk() -> str | None:
    """Look for the room that the longest ledger takes."""
    return bench_growth_length.lacks(Path(__file__).parent)
