"""A peer that a benchmark starts by itself: it is nobody else's, and does not outlive the benchmark."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import click
import psutil
import pytest
from bench_restart import PEER, Peer
from ports import free_port
from waiting import until

SLEEP = Path("/bin/sleep")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Describe a network of one peer, whose program is told to sleep."""
    address, operations = (f"127.0.0.1:{free_port()}" for _ in range(2))
    peer = {
        "name": PEER, "role": "peer", "address": address, "operations": operations, "args": ["1000"],
        "log": "peer.log", "data": "data",
    }  # fmt: skip
    document = {"channels": ["mychannel"], "mode": "stream", "consenter": "raft", "nodes": [peer]}
    (tmp_path / "network.json").write_text(json.dumps(document))
    return tmp_path


@pytest.mark.parametrize("which", ["address", "operations"])
def test_a_peer_is_not_started_where_another_program_listens(network: Path, which: str) -> None:
    peer = Peer(network, SLEEP)
    host, port = peer.node[which].split(":")
    with (
        socket.create_server((host, int(port))),
        pytest.raises(click.ClickException, match=f"{PEER} cannot have {host}:{port}"),
    ):
        peer.start()
    assert not (network / "peer.log").exists()


def test_a_peer_that_ends_is_said(network: Path) -> None:
    with pytest.raises(click.ClickException, match="the peer has ended"):
        Peer(network, Path("/bin/false")).start()


@pytest.mark.slow
def test_a_peer_ends_with_a_benchmark_that_is_killed(network: Path) -> None:
    begin = f"from bench_restart import *; Peer(Path({str(network)!r}), Path({str(SLEEP)!r})).start()"
    benchmark = psutil.Popen([sys.executable, "-c", begin], env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
    try:
        (peer,) = until(lambda: [one for one in benchmark.children() if one.name() == "sleep"])
    finally:
        benchmark.kill()
        benchmark.wait()
    try:
        peer.wait(timeout=30)
    except psutil.TimeoutExpired:
        peer.kill()
        raise
