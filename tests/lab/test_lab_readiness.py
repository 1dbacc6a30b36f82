"""Waiting for nodes: none that hangs keeps others' failures, or the deadline, from being noticed."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from waiting import DIES_WITH_TEST

from qioi.lab import readiness
from qioi.lab.network import Network, Node
from qioi.lab.site import Manner, Site
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree


class Health(BaseHTTPRequestHandler):
    """A health check that does something and then says no."""

    asked: Callable[[], None]

    def do_GET(self) -> None:
        type(self).asked()
        self.send_error(503)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def health(asked: Callable[[], None]) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), type("Its", (Health,), {"asked": staticmethod(asked)}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def network(folder: Path, *operations: str) -> Network:
    nodes = (Node(f"peer{n}", Role.PEER, "", at, (), folder / f"{n}.log") for n, at in enumerate(operations))
    return Network(folder / "network.json", ("mychannel",), "stream", "solo", tuple(nodes))


def test_a_node_that_ends_is_noticed_before_the_next_one_is_asked(tmp_path: Path) -> None:
    process = subprocess.Popen([*DIES_WITH_TEST, "sleep", "600"])
    second: list[bool] = []

    def end() -> None:
        process.kill()
        process.wait()

    with health(end) as first, health(lambda: second.append(True)) as other:
        nodes = network(tmp_path, first, other)
        site = Site(tmp_path, Tree("unused"), nodes.channels, Manner(600))
        site.started = {"peer1": (nodes.nodes[1], process)}
        with pytest.raises(LabError, match=r"peer1 ended \(status -9\)"):
            site.wait_until_served(nodes.nodes)
    assert second == []


def test_a_node_that_hangs_does_not_hold_up_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PATIENCE", 3600.0)  # longer than any test may take
    second: list[bool] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as deaf, health(lambda: second.append(True)) as other:
        nodes = network(tmp_path, f"127.0.0.1:{deaf.getsockname()[1]}", other)
        with pytest.raises(LabError, match="peer0 does not serve after 0 s"):
            Site(tmp_path, Tree("unused"), nodes.channels, Manner(0.2)).wait_until_served(nodes.nodes)
    assert second == []


def test_what_keeps_a_network_from_being_used_is_said_with_the_ends_of_the_logs_that_tell(
    tmp_path: Path, tree: Tree
) -> None:
    """The lab's folder, and the logs in it, are removed at once."""
    nodes = tuple(Node(role.value, role, "", "", (), tmp_path / f"{role.value}.log") for role in Role)
    for node in nodes:
        node.log.write_text("".join(f"{node.name} line {number}\n" for number in range(9)))
    its = Network(tmp_path / "network.json", ("mychannel",), "stream", "raft", nodes)
    site = Site(tmp_path, tree, ["mychannel"], Manner(timeout=0))
    with pytest.raises(LabError) as said:
        site.wait_until_usable(its, lambda *_: "nothing can be ordered")
    lines = str(said.value).splitlines()
    assert lines[0] == "nothing can be ordered after 0 s"
    assert [line for line in lines if "ends:" in line] == [
        f"{one}'s log ends:" for one in ("orderer", "broker", "replica")
    ]
    assert lines[-5:] == [f"replica line {number}" for number in range(4, 9)]


@pytest.mark.parametrize("port", ["65536", "70000"])
def test_a_port_beyond_the_last_is_refused(tmp_path: Path, port: str) -> None:
    """As of a database of many nodes, or of a Fabric, at `--base-port 65000`."""
    with pytest.raises(LabError, match=f"^peer0 would need port {port}, 65535 is the last; `--base-port` moves all"):
        readiness.refuse_busy_ports(network(tmp_path, f"127.0.0.1:{port}"))
