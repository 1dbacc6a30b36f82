"""What some pieces need that not every host has: each says in one line why it is not there, ``None`` if it is."""

from __future__ import annotations

import bench_growth_kubernetes

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
