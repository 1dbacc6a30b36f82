"""The search for the networks' maxima, from which loads and T are derived."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_experiment import HOST, load

from qioi.experiment.plan import Plan, make_plan, only
from qioi.experiment.session import Session
from qioi.experiment.store import Store
from qioi.experiment.system import NetworkSpec
from qioi.lab.figures import LoadFigures
from qioi.lab.lab import CLIENT_GROUP
from qioi.lab.load import LoadResult
from qioi.processes.tree import Program, Tree


class Probing(Session):
    """A session whose lab is the groups of a tree, without a node."""

    def __init__(self, plan: Plan, directory: Path, tree: Tree) -> None:
        super().__init__(plan, Store(directory / "toy"), directory, 1024, lambda *_: None)
        self._tree = tree

    @contextlib.contextmanager
    def _lab(self, spec: NetworkSpec, logs: Path) -> Iterator[tuple[Any, Any]]:
        yield SimpleNamespace(tree=self._tree, check=lambda: None), SimpleNamespace(nodes=())


def test_a_maximum_is_found_where_the_clients_group_ends_with_it(
    plan: Plan, tmp_path: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a container."""

    class Run(contextlib.nullcontext[Any]):
        def __init__(self, *_: object) -> None:
            super().__init__(self)
            self._process = tree.start(Program(CLIENT_GROUP, [sys.executable, "-c", "while True: pass"]))

        def wait(self, look: Callable[[], None]) -> LoadResult:
            look()
            tree.remove((tree.group(CLIENT_GROUP),), grace=0)
            self._process.wait()
            return LoadResult(LoadFigures(None, 120.0, 1, 1, 1, 1, 1, 100, 0), 0.0, 1.0, (), ())

    monkeypatch.setattr("qioi.experiment.session.LoadRun", Run)
    store = Store(tmp_path / "toy")
    store.begin(plan, {}, HOST)
    assert Probing(plan, tmp_path, tree)._maxima() == {"tiny": 120.0}
    assert store.document.maxima == {"tiny": 120.0}
    assert store.document.probe_noise.keys() == {"tiny"}
    assert not tree.group(CLIENT_GROUP).exists


TENANTS = {"mychannel": {"part": 0.5, "threshold": 0.5}}


@pytest.mark.parametrize("driven", [{"clients": 8}, {"rate": 30.0}])
@pytest.mark.parametrize(
    ("protection", "probed"),
    [
        ({"law": "adaptive"}, True),
        ({"law": "proportional"}, True),
        ({"law": "adaptive", "threshold": "offered"}, True),  # at most what the ledger can do is owed
        ({"law": "proportional", "threshold": "maximum"}, True),
        ({"law": "adaptive", "threshold": 20}, False),
        ({"law": "proportional", "threshold": 20}, False),
        ({"shares": 4096}, False),
    ],
)
def test_a_maximum_is_looked_for_where_the_protection_is_derived_from_it(
    document: dict[str, Any], tmp_path: Path, driven: dict[str, Any], protection: dict[str, Any], probed: bool
) -> None:
    document["loads"]["slow"], document["arms"][-1]["protection"] = driven, protection
    assert make_plan(load(document, tmp_path), 2).probed == (("tiny",) if probed else ())


@pytest.mark.parametrize(
    ("driven", "probed", "maximum"),
    [
        ({"clients": 8}, ("tiny", "tiny2"), 40.0),
        ({"rate": 30.0}, ("tiny", "tiny2"), 40.0),
        ({"part": 0.6}, ("tiny",), 100.0),
        ({"part": 0.6, "of": "own"}, ("tiny", "tiny2"), 40.0),
        ({"tenants": TENANTS}, ("tiny",), 100.0),
        ({"tenants": TENANTS, "of": "own"}, ("tiny", "tiny2"), 40.0),
    ],
)
def test_the_maximum_is_the_networks_own_unless_the_load_is_a_part_of_the_firsts(
    document: dict[str, Any], tmp_path: Path, driven: dict[str, Any], probed: tuple[str, ...], maximum: float
) -> None:
    """A ledger that is driven in a closed loop is owed no more than it can do itself."""
    document["networks"]["tiny2"] = {**document["networks"]["tiny"], "mode": "block"}
    document["loads"], document["figures"] = {"driven": driven}, document["figures"][:1]
    spec = load(document, tmp_path)
    plan = make_plan(spec, cores=2)
    assert plan.probed == probed
    cell = next(cell for cell in plan.cells if (cell.network_name, cell.arm.name) == ("tiny2", "qioi"))
    session = Session(plan, Store(tmp_path / "toy"), tmp_path, 1024, lambda *_: None)
    assert session._offer(1, cell, {"tiny": 100.0, "tiny2": 40.0}).maximum == maximum
    assert ("tiny" in only(spec, networks=["tiny2"]).networks) == (maximum == 100.0)
