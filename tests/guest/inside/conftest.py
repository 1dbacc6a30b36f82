"""What runs in the guest uses the site of the daemon's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "daemon"))
from running import Site, until


def made(folder: Path) -> Site | None:
    """Make a site; not while the guest's systemd, just reloaded, removes groups that it knows nothing of."""
    try:
        return Site(folder)
    except FileNotFoundError:
        return None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = until(lambda: made(tmp_path))
    assert site is not None
    yield site
    site.close()
