from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from qioi.lab.cgroups import Tree, find_hierarchy
from qioi.lab.lab import Lab


@pytest.fixture
def tree() -> Iterator[Tree]:
    """A group of the tests' own in the real hierarchy, gone afterwards with all that runs in it."""
    tree = Tree(f"qioi-test-{os.getpid()}", find_hierarchy())
    tree.create()
    yield tree
    tree.remove(grace=0)


@pytest.fixture
def base_port() -> int:
    """The start of a run of loopback ports that nobody listens on."""
    for base in range(23_000, 60_000, 100):
        try:
            for port in range(base, base + 100):
                with socket.create_server(("127.0.0.1", port)):
                    pass
        except OSError:
            continue
        return base
    raise RuntimeError("no hundred free ports")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab in a folder of its own, down afterwards whatever happened."""
    lab = Lab(tmp_path / "lab")
    yield lab
    lab.down()
