"""What runs in the guest uses the site of the daemon's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Site

from qioi.kernel.hierarchy import find_hierarchy


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    hierarchy = find_hierarchy()
    if hierarchy.version == 2:  # systemd takes the controller away when no unit of its own needs it any more
        (hierarchy.mount / "cgroup.subtree_control").write_text("+cpu")
    site = Site(tmp_path)
    yield site
    site.close()
