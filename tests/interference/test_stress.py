"""Real stress-ng processes in real groups."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from waiting import until

from qioi.interference import StressNg, stress_binary
from qioi.interference.stress import Kind, parse_metrics
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "io"])
def test_it_works_in_a_group_of_its_own_and_says_what_it_did(tree: Tree, tmp_path: Path, kind: Kind) -> None:
    assert shutil.which("stress-ng"), "stress-ng is not installed: `apt-get install stress-ng` brings it"
    scratch, name = tmp_path / "disk", f"stress-{kind}1"
    # It counts whole passes, and how much CPU the first one takes is the host's business: one lives until it has some.
    for needed in (0.5, 2.0, 8.0, 32.0):
        stress = StressNg(tree, kind, 1, tmp_path, scratch=scratch)
        stress.prepare()
        try:
            assert [path.name for path in scratch.iterdir()] == [f"{name}.tmp"]
            assert [group.shares() for group in stress.groups] == [1024]
            stress.start()
            assert stress.work(0, 0) is None
            # Not only started: it has its memory or its file, and works.
            until(lambda stress=stress, needed=needed: stress.groups[0].cpu_seconds() >= needed)
            stress.check()
            pids = stress.groups[0].pids()
            assert len(pids) >= 2
        finally:
            stress.stop()
        assert not stress.groups[0].exists
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        assert not list(scratch.iterdir())
        assert (tmp_path / f"{name}.log").exists()
        if stress.work(0, 0):
            return
    pytest.fail(f"no work in {needed:.0f} s of CPU: {(tmp_path / f'{name}.log').read_text()}")


@pytest.mark.slow
def test_the_work_of_those_that_were_killed_is_not_known(tree: Tree, tmp_path: Path) -> None:
    """Neighbours that go within the window are killed, and say nothing."""
    stress = StressNg(tree, "memory", 2, tmp_path)
    stress.prepare()
    try:
        stress.start()
        until(lambda: all(group.cpu_seconds() >= 0.1 for group in stress.groups))
        stress.groups[0].signal(signal.SIGKILL)
    finally:
        stress.stop()
    assert parse_metrics(tmp_path / "stress-memory2.log") is not None
    assert stress.work(0, 0) is None


def test_one_that_ends_by_itself_is_noticed(tree: Tree, tmp_path: Path) -> None:
    stress = StressNg(tree, "memory", 1, tmp_path)
    stress.prepare()
    try:
        stress.start()
        stress._processes["stress-memory1"].kill()
        stress._processes["stress-memory1"].wait()
        with pytest.raises(LabError, match="stress-memory1 ended by itself"):
            stress.check()
    finally:
        stress.stop()


def test_a_host_without_it_is_told_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="apt-get install stress-ng"):
        stress_binary()


def test_what_it_says_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "stress-ng: metrc: [71] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s\n"
        "stress-ng: metrc: [71] vm                 5000      2.50      1.10      0.20      2000.0        3846.1\n"
    )
    assert parse_metrics(log) == 2000
    log.write_text("stress-ng: info: nothing\n")
    assert parse_metrics(log) is None
    log.write_text("stress-ng: metrc: [71] hdd   0   0.00   0.00   0.00   0.00   0.00\n")
    assert parse_metrics(log) == 0
