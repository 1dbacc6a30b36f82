"""The site of a real daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes control groups")
    site = Site(tmp_path)
    yield site
    site.close()
