"""A node of a lab that another process brought up is watched by its pid and by when it began."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qioi.kernel.child import Child, mortal
from qioi.lab.watch import Watch, begun_at
from qioi.processes.errors import LabError


def watch(folder: Path, pid: int, begun: int | None) -> Watch:
    network: Any = SimpleNamespace(nodes=(SimpleNamespace(name="peer0", log=folder / "peer0.log"),))
    return Watch(network, {"pids": {"peer0": pid}, "begun": {"peer0": begun}})


def test_a_node_that_ended_before_it_was_noted_is_noticed(tmp_path: Path) -> None:
    """Its state has no time of its beginning, which is what there is of an ended process, too."""
    ended = Child(mortal(["true"]))
    ended.wait()
    with pytest.raises(LabError, match=rf"^peer0 \(process {ended.pid}\) ended"):
        watch(tmp_path, ended.pid, None).check()
    watch(tmp_path, ended.pid, None).check(killed={"peer0"})


def test_another_process_with_the_pid_of_a_node_is_not_the_node(tmp_path: Path) -> None:
    begun = begun_at(os.getpid())
    assert begun is not None
    watch(tmp_path, os.getpid(), begun).check()
    with pytest.raises(LabError, match="ended"):
        watch(tmp_path, os.getpid(), begun - 1).check()
