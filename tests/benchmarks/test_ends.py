"""Where shares end: neighbours that are kept on one CPU, and what becomes of a run's results."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench_ends import WAYS, confined
from laws_figures import ALONE
from laws_figures import Row as LawRow
from published.readers import ends
from waiting import until

from qioi.interference import Sysbench
from qioi.processes.tree import Tree


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU")
def test_confined_neighbours_have_one_cpu_with_all_of_their_threads(tmp_path: Path) -> None:
    tree = Tree(f"qioi-test-{uuid.uuid4().hex[:8]}")
    tree.create()
    try:
        lab: Any = SimpleNamespace(tree=tree)
        for really, cpus in ((False, os.sched_getaffinity(0)), (True, {max(os.sched_getaffinity(0))})):
            with confined(lab, really), Sysbench(tree, 1, tmp_path):
                threads = until(lambda: [one for one in threads_of(tree) if len(threads_of(tree)) > 1])
                until(lambda threads=threads, cpus=cpus: all(os.sched_getaffinity(one) == cpus for one in threads))
    finally:
        tree.remove()


def threads_of(tree: Tree) -> list[int]:
    """Give sysbench's threads: one that works, and some that wait."""
    return [int(one.name) for pid in tree.group("sysbench1").pids() for one in Path(f"/proc/{pid}/task").iterdir()]


def test_ways_stand_in_their_order_beside_alone(tmp_path: Path) -> None:
    def row(repeat: int, name: str, p95: float) -> dict[str, Any]:
        count = 0 if name == ALONE else 16
        return asdict(
            LawRow("fixed", count, repeat, name, 100, p95, p95, p95, 0, 0.2, 1.0, 0.1, 0, 1.1, 0, None, 0, 18, 0, 0.0)
        )

    p95 = {ALONE: 100.0, "highest": 130.0, "adaptive": 110.0}
    names = list(p95)
    document = {
        "machine": {"cores": 2},
        "rows": [row(repeat, name, p95[name]) for repeat in (2, 1) for name in reversed(names)],
        "offered": {"1": 100.0, "2": 100.0},
        "titles": {ALONE: ALONE, **{name: WAYS[name].title for name in names[1:]}},
    }  # fmt: skip
    (tmp_path / "ends.json").write_text(json.dumps(document))
    found = ends([tmp_path], [])
    assert [one.title for one in found.rows] == [ALONE, WAYS["highest"].title, "adaptive"]
    assert [one.values["slower"] for one in found.rows] == [(1.0, 1.0), (1.3, 1.3), (1.1, 1.1)]
