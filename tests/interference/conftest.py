from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from qioi.processes.cgroups import find_hierarchy
from qioi.processes.tree import Tree


@pytest.fixture
def tree() -> Iterator[Tree]:
    """A group of the tests' own in the real hierarchy, gone afterwards with all that runs in it."""
    tree = Tree(f"qioi-test-{uuid.uuid4().hex[:12]}", find_hierarchy())
    tree.create()
    yield tree
    tree.remove(grace=0)
