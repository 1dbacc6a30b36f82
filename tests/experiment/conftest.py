from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ports import reserved
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
def base_port() -> Iterator[int]:
    """The start of a run of loopback ports that are the test's own, enough for several small labs."""
    with reserved() as first:
        yield first
