from __future__ import annotations

import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import PATIENCE

from qioi.lab.caliper_files import find_configs

HERE = Path(__file__).parent


@pytest.fixture
def configs() -> Path:
    return find_configs()


@pytest.fixture
def data() -> Path:
    return HERE / "data"


@pytest.fixture
def javascript() -> Callable[[str], str]:
    """Run a script as the workloads run: Node, with a stand-in for what they import from Caliper."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: apt-get install nodejs")

    def run(script: str) -> str:
        done = subprocess.run(
            [node, "-e", textwrap.dedent(script)],
            env={"NODE_PATH": str(HERE / "fake-modules"), "CONFIGS": str(find_configs())},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
