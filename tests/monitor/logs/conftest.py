"""What the tests of followed logs share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a line from before it is followed."""
    path = tmp_path / "peer.log"
    path.write_bytes(b"before\n")
    return path
