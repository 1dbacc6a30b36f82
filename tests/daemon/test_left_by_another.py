"""A dry run names each journal that a daemon before it has left, and what puts back what is in it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.left import warn_of_left
from qioi.controller.levers.lever import ThreadId
from qioi.controller.slicing import SlicePeriod
from qioi.daemon.assembly import choose_slices
from qioi.daemon.service import JOURNALS
from qioi.kernel.hierarchy import Hierarchy
from qioi.kubernetes.service import make_resizer
from qioi.settings.config import load_config


@pytest.mark.parametrize(
    ("name", "by"),
    [("journal", "`qioi restore`"), ("slices", "`qioi restore`"), ("idle", "`qioi restore`"),
     ("requests", "`kubectl qioi restore`"), (None, None)],
)  # fmt: skip
def test_each_journal_that_is_left_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str | None, by: str | None
) -> None:
    if name is not None:
        (tmp_path / name).touch()
    warn_of_left(tmp_path, JOURNALS, "qioi restore")
    nobody = cast("Any", None)  # a dry run asks no API server
    settings = {"dry_run": True, "state_dir": str(tmp_path), "kubernetes": {"node": "n1"}}
    (tmp_path / "qioi.yaml").write_text(json.dumps(settings))
    config = load_config(tmp_path / "qioi.yaml")
    assert make_resizer(config, nobody, nobody, ExitStack()) is None
    said = [one.message for one in caplog.records]
    assert len(said) == (name is not None)
    for one in said:
        assert f"has left its journal {tmp_path}/{name}: a dry run restores nothing" in one
        assert str(by) in one


def test_a_journal_beside_a_daemon_that_runs_is_taken_for_its(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "journal").touch()
    warn_of_left(tmp_path, JOURNALS, "qioi restore", "/mnt: a QiOi daemon is running already on this host (pid 7)")
    (said,) = [one.message for one in caplog.records]
    assert said.startswith(f"/mnt: a QiOi daemon is running already on this host (pid 7): the journal {tmp_path}/")
    assert "qioi restore" not in said


def test_a_dry_run_does_not_put_back_slices_that_are_left(tmp_path: Path) -> None:
    journal = Journal(tmp_path, name="slices")
    journal.store([Entry("g", "sched_runtime", ThreadId(1, 1), 0, (400_000,))])
    before = journal.file.read_bytes()
    settings = {"dry_run": True, "slices": "required", "state_dir": str(tmp_path), "containerd": {}}
    (tmp_path / "qioi.yaml").write_text(json.dumps(settings))
    with ExitStack() as cleanup:
        slicer = choose_slices(load_config(tmp_path / "qioi.yaml"), Hierarchy(2, tmp_path), cleanup)
        slicer.step(SlicePeriod(1.0, [], {}, {}, False))
    assert (journal.file.read_bytes(), slicer.clean) == (before, True)
