"""A benchmark whose neighbours have ended keeps no figures that are said to be beside them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import bench_loop
import pytest
from lab_bench import stay

from qioi.kernel.child import mortal
from qioi.processes.errors import LabError


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(mortal(["sleep", "1000"]))
    yield process
    process.kill()
    process.wait()


def test_the_loop_is_not_measured_beside_fewer_sysbench(sleeper: subprocess.Popen[bytes]) -> None:
    bench_loop.check([sleeper])
    ended = subprocess.Popen(["sh", "-c", "exit 127"])
    ended.wait()
    with pytest.raises(LabError, match=r"1 of 2 sysbench ended by themselves \(status 127\)"):
        bench_loop.check([sleeper, ended])


def test_the_loop_is_not_measured_without_sysbench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", ["bench_loop.py"])
    with pytest.raises(LabError, match="sysbench is not installed"):
        bench_loop.main()


def test_what_ends_in_a_rest_ends_the_rest() -> None:
    stay(0.0, lambda: None)
    looks = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise LabError("sysbench1 ended by itself")

    with pytest.raises(LabError, match="sysbench1"):
        stay(1000.0, check)
