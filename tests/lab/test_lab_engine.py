"""What the lab asks of an engine about a container that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_engine import Engine as ToyEngine

from qioi.lab.engine import LabEngine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LabEngine]:
    toy = ToyEngine(tmp_path / "sock", {})
    yield LabEngine(str(tmp_path / "sock"))
    toy.shutdown()
    toy.server_close()


def test_a_container_that_is_not_there_is_no_error(engine: LabEngine) -> None:
    assert engine.runs("nobody") is None
    assert engine.exit_status("nobody") is None
    assert engine.logs("nobody") == b""
    engine.remove("nobody")
