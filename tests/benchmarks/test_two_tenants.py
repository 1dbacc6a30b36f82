"""What the benchmark of two tenants hands to the daemon, and which windows it compares."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench_tenants import ALPHA, APART, BETA, CHANNELS, Bench, refuse_apart

from qioi.processes.errors import LabError
from qioi.settings.config import load_config


def lab(directory: Path, channel: str) -> Any:
    """Give a lab that runs nothing: one peer and the client, named as in every lab."""
    peer = {"name": "peer0-org1", "role": "peer", "log": str(directory / channel / "peer.log")}
    components = [
        {**one, "cgroup": f"{channel}/{one['name']}", "channels": [channel]}
        for one in (peer, {"name": "client", "role": "client"})
    ]
    return SimpleNamespace(tree=None, directory=directory / channel, state=lambda: {"components": components})


def test_the_daemon_has_the_components_of_both_and_what_each_is_owed(tmp_path: Path) -> None:
    labs = {channel: lab(tmp_path, channel) for channel in CHANNELS}
    network: Any = SimpleNamespace(nodes=(), channels=(BETA,), mode="stream")
    file = tmp_path / "qioi.yaml"
    file.write_text(Bench(labs, network, tmp_path).config({ALPHA: 500.04, BETA: 200.0}))
    config = load_config(file)
    assert {(one.name, one.cgroup, one.channels) for one in config.components} == {
        (f"{channel}-{name}", f"{channel}/{name}", (channel,))
        for channel in CHANNELS
        for name in ("peer0-org1", "client")
    }
    assert {name: policy.threshold for name, policy in config.policies.items()} == {ALPHA: 500.0, BETA: 200.0}


@pytest.mark.parametrize("apart", [APART, -APART, 0.0])
def test_windows_within_what_loads_go_on_for_are_compared(apart: float) -> None:
    refuse_apart({ALPHA: 100.0, BETA: 100.0 + apart})


@pytest.mark.parametrize("apart", [APART + 0.1, -APART - 0.1])
def test_windows_farther_apart_are_refused(apart: float) -> None:
    with pytest.raises(LabError, match=r"of alpha and beta began 5\.1 s apart: accepted is 5 s"):
        refuse_apart({ALPHA: 100.0, BETA: 100.0 + apart})
