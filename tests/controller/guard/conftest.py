"""Fixtures of the guard."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_owners import ToyOwners
from toy_threads import ToyThreads


@pytest.fixture
def owners() -> ToyOwners:
    return ToyOwners()


@pytest.fixture
def toy(tmp_path: Path) -> ToyThreads:
    """One group: a thread with the default slice, and one with a slice of its own."""
    toy = ToyThreads(tmp_path)
    toy.scheduler.add(1)
    toy.scheduler.add(2, 5_000_000)
    return toy
