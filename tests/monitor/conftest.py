from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from monitor_groups import MOUNTS, Groups


@pytest.fixture
def groups() -> Iterator[Groups]:
    mount = next((path for path in MOUNTS if (path / "cgroup.procs").exists()), None)
    if mount is None or os.geteuid() != 0:
        pytest.skip("needs root and the CPU controller")
    made = Groups(mount / f"qioi-test-{uuid.uuid4().hex[:12]}")
    made.base.mkdir()
    try:
        yield made
    finally:
        made.remove()
