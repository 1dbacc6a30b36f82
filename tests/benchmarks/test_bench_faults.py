"""Benchmarks that keep no figures of unlike runs, and leave nothing behind where they fail."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_bursts
import bench_daemon
import bench_ordering
import bench_owed
import bench_reaction
import click
import pytest
from click.testing import CliRunner

from qioi.kernel.hierarchy import Hierarchy
from qioi.processes.cgroups import Mounts
from qioi.processes.errors import LabError

NOBODY: Any = None


@pytest.mark.parametrize(
    ("options", "others"),
    [(["--many", "32"], "clients"), (["--peak", "128"], "clients"), (["--duration", "4"], "duration")],
)
def test_unlike_repeats_of_ordering_are_not_pooled(tmp_path: Path, options: list[str], others: str) -> None:
    file = tmp_path / "ordering.json"
    file.write_text(json.dumps({"clients": [1, 64, 256], "duration": 8.0, "repeats": []}))
    before = file.read_text()
    done = CliRunner().invoke(bench_ordering.main, [*options, "--output", str(tmp_path)])
    assert (done.exit_code, f"repeats of other {others}: name another --output" in done.output) == (2, True)
    assert file.read_text() == before
    bench_ordering.hold_to(file, (1, 64, 256), 8.0)
    bench_ordering.hold_to(tmp_path / "none.json", (1, 64, 256), 8.0)
    file.write_text(json.dumps({"clients": [1, 64, 256], "repeats": []}))  # an earlier version's
    with pytest.raises(click.UsageError, match="other duration"):
        bench_ordering.hold_to(file, (1, 64, 256), 8.0)


class Stalled:
    """A load that has ended without a commit."""

    def __init__(self, *_words: object) -> None:
        pass

    def __enter__(self) -> Stalled:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def running(self) -> bool:
        return False

    def result(self) -> None:
        raise LabError("nothing was committed")


def test_a_stalled_burst_counts_beside_neighbours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = SimpleNamespace(committed=0, throughput=0.0, p95=0.0)
    monkeypatch.setattr("bench_bursts.LoadRun", Stalled)
    monkeypatch.setattr("bench_bursts.read_result", lambda *_words: SimpleNamespace(figures=figures))
    lab: Any = SimpleNamespace(tree=None)
    bench = bench_bursts.Bench(lab, NOBODY, tmp_path, 700.0, 0.0)
    assert bench.bursts("nothing", 1) == [figures]
    with pytest.raises(LabError, match="nothing was committed"):
        bench.bursts("alone", 1)


def test_what_is_owed_is_kept_with_its_neighbours_and_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[Any, ...]] = []

    def row_of(*words: Any) -> Any:
        rows.append(words[1:4])
        return SimpleNamespace(tps=1.0, ledger_cores=1.0, client_cores=0.1)

    monkeypatch.setattr("bench_owed.row_of", row_of)
    monkeypatch.setattr("bench_owed.line", lambda _one: "")
    monkeypatch.setattr("bench_owed.Runner", lambda *_words: SimpleNamespace(run=lambda _arm: None))
    bench = bench_owed.Bench(NOBODY, NOBODY, tmp_path, 12.0, 8, 3)
    bench.alone()
    bench.run("nothing")
    assert rows == [(0, 3, "alone"), (8, 3, "nothing")]


@pytest.mark.parametrize("number", [1, 2])
def test_what_the_daemons_cost_is_measured_on_is_gone_where_a_start_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    mounts = [tmp_path / "cpu", tmp_path / "cpuacct"]
    for mount in mounts:
        mount.mkdir()
    started: list[Any] = []
    really = subprocess.Popen

    def start(*words: Any, **more: Any) -> Any:
        if len(started) == number - 1:
            raise OSError("no memory")
        started.append(really(*words, **more))
        return started[-1]

    monkeypatch.setattr("bench_daemon.find_mounts", lambda: Mounts(Hierarchy(1, mounts[0]), mounts[1]))
    monkeypatch.setattr("bench_daemon.subprocess.Popen", start)
    with pytest.raises(OSError, match="no memory"):
        bench_daemon.measure(tmp_path, bench_daemon.Shape(1, 1, 1.0, 1.0), 1.0, None)
    assert [list(mount.iterdir()) for mount in mounts] == [[], []]
    assert [one.poll() for one in started] == [-9] * (number - 1)


def test_neighbours_that_were_prepared_are_gone_where_the_daemon_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sysbench = SimpleNamespace(prepare=lambda: done.append("prepare"), stop=lambda: done.append("stop"))

    def daemon(*_words: object) -> Any:
        raise LabError("the daemon has ended")

    monkeypatch.setattr("bench_reaction.Sysbench", lambda *_words: sysbench)
    monkeypatch.setattr("bench_reaction.daemon_config", lambda *_words, **_more: "")
    monkeypatch.setattr("bench_reaction.Daemon", daemon)
    lab: Any = SimpleNamespace(tree=None)
    with pytest.raises(LabError, match="the daemon has ended"):
        bench_reaction.visit(lab, NOBODY, tmp_path, 16, 600.0, 1.0, 0.5)
    assert done == ["prepare", "stop"]
