"""Fixtures of the guard."""

from __future__ import annotations

import pytest
from toy_owners import ToyOwners


@pytest.fixture
def owners() -> ToyOwners:
    return ToyOwners()
