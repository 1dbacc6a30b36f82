from __future__ import annotations

import copy
import socket
from pathlib import Path
from typing import Any

import pytest
from toy_experiment import DOCUMENT, load

from qioi.experiment.plan import Plan, make_plan
from qioi.experiment.spec import ExperimentSpec


@pytest.fixture
def document() -> dict[str, Any]:
    """A whole, right experiment, to be spoilt."""
    return copy.deepcopy(DOCUMENT)


@pytest.fixture
def spec(document: dict[str, Any], tmp_path: Path) -> ExperimentSpec:
    return load(document, tmp_path)


@pytest.fixture
def plan(spec: ExperimentSpec) -> Plan:
    return make_plan(spec, cores=2)


@pytest.fixture
def base_port() -> int:
    """The start of a run of loopback ports that nobody listens on, enough for several small labs."""
    for base in range(34_000, 35_000, 200):
        try:
            for port in range(base, base + 200):
                with socket.create_server(("127.0.0.1", port)):
                    pass
        except OSError:
            continue
        return base
    raise RuntimeError("no two hundred free ports")
