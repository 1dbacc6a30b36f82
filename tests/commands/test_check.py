"""`qioi check` says whose processes a daemon would see."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

CHECK = [sys.executable, "-m", "qioi.cli", "check", "--output", "json"]


def processes(*prefix: str) -> str:
    done = subprocess.run([*prefix, *CHECK], capture_output=True, text=True, check=False)
    return str(json.loads(done.stdout)["facts"]["processes"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a PID namespace")
def test_in_a_pid_namespace_of_its_own_it_names_what_is_missing() -> None:
    assert "--pid host" in processes("unshare", "--pid", "--fork", "--mount-proc")
