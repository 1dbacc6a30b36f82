"""What an experiment's code was when it ran: looked up once in Git's history, kept, and compared from then on."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from published import code
from published.run_code import RunCode, depends
from toy_experiment import DOCUMENT, filled, load, row

from qioi.experiment import catalogue
from qioi.experiment.plan import make_plan
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a file of the lab and one of the pages that show experiments."""
    root = tmp_path / "root"
    for name in ("qioi/lab/lab.py", "qioi/experiment/page.py"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("a = 1\n")
    code.git(tmp_path, "init", "--quiet", str(root))
    commit(root)
    return root


def commit(root: Path) -> str:
    code.git(root, "add", "--all")
    code.git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "a")
    return code.commit(root)


def run_of(at: str, tmp_path: Path) -> Summary:
    """A kept run that was made of a commit."""
    store = Store(tmp_path / "kept" / at / "toy")
    filled(store, make_plan(load(DOCUMENT, tmp_path), 2), [row(100, 50, 100)])
    summary = Summary(store)
    summary.document.host.versions["commit"] = at
    return summary


def test_a_run_is_of_the_code_until_what_it_depends_on_changes(root: Path, tmp_path: Path) -> None:
    summary, known = run_of(code.commit(root), tmp_path), RunCode(root, tmp_path / "code.json")
    assert known.learn([summary])
    assert not known.has_changed(summary)
    (root / "qioi/experiment/page.py").write_text("a = 2\n")
    commit(root)
    assert not known.has_changed(summary)
    (root / "qioi/lab/lab.py").write_text("a = 2\n")
    later = commit(root)
    assert known.has_changed(summary)
    assert RunCode(root, tmp_path / "code.json").has_changed(summary)  # as it was kept
    again = run_of(later, tmp_path)
    with pytest.raises(ValueError, match="make figures"):
        known.has_changed(again)
    assert known.learn([again])
    assert not known.has_changed(again)
    assert not known.learn([again])


def test_a_commit_that_history_does_not_have_is_named(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0123abc"):
        RunCode(root, tmp_path / "code.json").learn([run_of("0123abc", tmp_path)])


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("fig_9", {"controller", "ledger"}, {":(exclude)ledger/internal/orderer/consensus/kafka"}),
        ("fig_10", {"caliper-configs", "ledger"}, {"ledger/internal/load"}),
        ("fig_3", {"ledger", ":(exclude)qioi/lab/systems/kafka*"}, {"controller", "caliper-configs"}),
        ("protect_ordering", {"controller"}, {":(exclude)ledger/internal/orderer/consensus/bft"}),
        ("thesis_2_3", {"ledger"}, {"controller", ":(exclude)qioi/lab/systems/cassandra*"}),
        ("rdb_fig_9", {"ledger/internal/bftbench", "monitor/scheduler"}, {"ledger", "controller"}),
        ("tables_2_3", {"monitor/scheduler", "monitor/profile", "qioi/kernel"}, {":(exclude)monitor/profile"}),
        ("fig_4_7", {"monitor/scheduler", "qioi/model"}, {":(exclude)monitor/profile"}),
        ("kinds", {"controller", "ledger"}, {":(exclude)qioi/lab/systems/fabric*"}),
    ],
)
def test_an_experiment_depends_on_what_it_runs(name: str, has: set[str], lacks: set[str]) -> None:
    found = set(depends(make_plan(catalogue.find(name), 2, paper_size=True)))
    assert has <= found
    assert not lacks & found


@cache
def tracked(*paths: str) -> list[str]:
    """List this repository's files below paths. Most experiments depend on the same ones, and Git takes its time."""
    return code.git(ROOT, "ls-files", "--", *paths).splitlines()


@pytest.mark.parametrize("name", catalogue.names())
def test_every_path_is_there(name: str) -> None:
    for path in depends(make_plan(catalogue.find(name), 2, paper_size=True)):
        assert tracked(path.removeprefix(":(exclude)")), path


@pytest.mark.parametrize("name", catalogue.names())
def test_what_measures_is_left_out_nowhere(name: str) -> None:
    plan = make_plan(catalogue.find(name), 2, paper_size=True)
    files = set(tracked(*depends(plan)))
    assert {"qioi/experiment/session.py", "qioi/lab/sampler.py", "monitor/scheduler/schedstat.py"} <= files
    assert ("monitor/profile/perf.py" in files) == any(cell.timing.profile for cell in plan.cells)
