from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import reserved
from waiting import PATIENCE

from qioi.lab.lab import Lab


@pytest.fixture(autouse=True)
def busy_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at nodes with patience: other tests have the CPUs too."""
    monkeypatch.setattr("qioi.lab.lab.GLANCE", PATIENCE)


@pytest.fixture
def base_port() -> Iterator[int]:
    """The start of a run of loopback ports that are the test's own."""
    with reserved() as first:
        yield first


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab in a folder of its own, down afterwards whatever happened."""
    lab = Lab(tmp_path / "lab")
    yield lab
    lab.down()
