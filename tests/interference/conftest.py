from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from qioi.lab.cgroups import Tree, find_hierarchy


@pytest.fixture
def tree() -> Iterator[Tree]:
    """A group of the tests' own in the real hierarchy, gone afterwards with all that runs in it."""
    tree = Tree(f"qioi-test-{os.getpid()}", find_hierarchy())
    tree.create()
    yield tree
    tree.remove(grace=0)
